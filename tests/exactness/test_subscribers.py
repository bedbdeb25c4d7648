"""The other table's task in a foreign-key join: each row sees the subscriptions and foreign rows of its own turn."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamtopo import StreamsBuilder
from streamtopo.operators.joins.subscription import Instruction, Response, Subscription, past
from streamtopo.records import Columns, TopicPartition
from streamtopo.testing import Driver

REGISTRATION = TopicPartition("app-named-subscription-registration-topic", 0)
RIGHT = TopicPartition("right", 0)
RESPONSE = TopicPartition("app-named-subscription-response-topic", 0)
FOREIGN_KEYS = [b"", b"x", b"xy", b"\xff", b"\xff\xff"]

subscriptions = st.builds(
    lambda instruction, key, number: Subscription(instruction, bytes([number]) * 16, key, 0).encode(),
    st.sampled_from(Instruction),
    st.sampled_from([b"a", b"ab", b"b"]),
    st.integers(0, 255),
)
sent = st.lists(
    st.one_of(
        st.tuples(st.just(REGISTRATION), st.sampled_from(FOREIGN_KEYS), subscriptions),
        st.tuples(
            st.just(TopicPartition("right", 0)), st.sampled_from(FOREIGN_KEYS), st.sampled_from([b"r", b"s", None])
        ),
    ),
    max_size=30,
)


def responses(records: list[Any], **options: Any) -> list[tuple[bytes | None, Response, int]]:
    """Return the responses to subscriptions and rows that were all there before the first one was processed."""
    builder = StreamsBuilder("app")
    left, right = (builder.table(topic, key=bytes, value=bytes) for topic in ("left", "right"))
    joined = left.join(right, lambda own, other: own + other, foreign_key=lambda value: value, name="named")
    joined.to_stream().to("out")
    driver = Driver(builder.build(), **options)
    for time, (target, key, value) in enumerate(records):
        driver.log.append(target, Columns([key], [value], [time]))
    driver.run()
    columns = driver.log.read(RESPONSE, 0, 1 << 60).columns
    answers = [Response.decode(value) for value in columns.values if value is not None]
    return list(zip(columns.keys, answers, columns.timestamps, strict=True))


def model(records: list[Any]) -> list[tuple[bytes | None, Response, int]]:
    rows: dict[bytes, tuple[bytes, int]] = {}
    kept: dict[tuple[bytes, bytes], bytes] = {}
    out: list[tuple[bytes | None, Response, int]] = []
    for time, (target, key, value) in enumerate(records):
        if target != REGISTRATION:
            rows.pop(key, None)
            if value is not None:
                rows[key] = (value, time)
            subscribed = sorted((own, hash) for (foreign, own), hash in kept.items() if foreign == key)
            out += [
                (own, Response(hash, value is not None, key if value is None else value), time)
                for own, hash in subscribed
            ]
            continue
        one = Subscription.decode(value)
        kept.pop((key, one.key), None)
        if one.instruction in (Instruction.ANSWER, Instruction.ANSWER_IF_FOUND):
            kept[key, one.key] = one.hash
        row = rows.get(key) if one.instruction is not Instruction.CANCEL_AND_ANSWER else None
        if one.instruction is Instruction.CANCEL or (one.instruction is Instruction.ANSWER_IF_FOUND and row is None):
            continue
        when = max(time, rows[key][1]) if key in rows else time
        out.append((one.key, Response(one.hash, row is not None, key if row is None else row[0]), when))
    return out


@given(records=sent, chunk=st.sampled_from([1, 2, 7, 10_000]), depth_first=st.booleans())
def test_subscribers_get_what_holds_at_their_turn(records: list[Any], chunk: int, depth_first: bool) -> None:
    assert responses(records, chunk=chunk, depth_first=depth_first) == model(records)


@given(st.lists(st.binary(max_size=3), min_size=1), st.binary(max_size=3))
def test_the_first_key_after_a_prefix(keys: list[bytes], prefix: bytes) -> None:
    end = past(prefix)
    within = [key for key in sorted(keys) if key >= prefix and (end is None or key < end)]
    assert within == [key for key in sorted(keys) if key.startswith(prefix)]
