"""The names of the headers of dead letters, as we write them: first those of Kafka Streams 4.2, then our own.

All values are UTF-8 text, and numbers are decimals. They follow the record's own headers, in this order. Kafka Streams
writes the message as null if the exception has none.
"""

from __future__ import annotations

STREAMS = "__streams.errors."
EXCEPTION = f"{STREAMS}exception"
MESSAGE = f"{STREAMS}message"
STACKTRACE = f"{STREAMS}stacktrace"
TOPIC = f"{STREAMS}topic"
PARTITION = f"{STREAMS}partition"
OFFSET = f"{STREAMS}offset"

OWN = "__streamtopo.errors."
NODE = f"{OWN}node"
STAGE = f"{OWN}stage"
"""`decode`, `step` or `produce`."""
TASK = f"{OWN}task"
APPLICATION = f"{OWN}application"
ATTEMPTS = f"{OWN}attempts"
PLACE = f"{OWN}place"
"""Of the step in the user's file, such as `to_cents, orders.py:31`; only if it is known."""
CUT = f"{OWN}cut"
"""The number of bytes that the value had; only if the letter was cut, as it was too large for its topic."""
CALL = f"{OWN}call"
"""What was called if there was no record, such as a punctuation. Then there is no topic, partition and offset."""
