"""Append three records under a number, in a process that is killed before or after its transaction is committed, or
this many seconds after it began.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import closing
from functools import partial
from typing import Any

from streamtopo.logs.kafka import KafkaLog
from streamtopo.logs.kafka.group.writers import TransactionalWriter
from streamtopo.logs.opening import open_log
from streamtopo.records import Columns, TopicPartition


def append(log: KafkaLog, name: str, number: int) -> bool:
    """Append three records, in both partitions."""
    rows = Columns([None], [b"%d" % number], [0])
    targets = [TopicPartition("t", place) for place in (0, 1, 0)]
    with closing(log.appender(name)) as appender:
        return appender.append(((target, rows) for target in targets), number)


def die(seconds: float = 0) -> None:
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


def main(url: str, name: str, number: str, when: str) -> None:
    log = open_log(url)
    assert isinstance(log, KafkaLog)
    commit = TransactionalWriter.commit

    def dying(transactions: TransactionalWriter, *arguments: Any) -> Any:
        if when == "before":
            transactions._producer.flush()
            die()
        commit(transactions, *arguments)
        die()

    if when in ("before", "after"):
        TransactionalWriter.commit = dying  # type: ignore[assignment, method-assign]
    else:
        threading.Thread(target=partial(die, float(when)), daemon=True).start()
    append(log, name, int(number))


if __name__ == "__main__":
    main(*sys.argv[1:])
