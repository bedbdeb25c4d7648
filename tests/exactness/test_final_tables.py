"""Tables made from tables: at any pace and across restarts, the final rows follow from the final rows of the inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtopo import StreamsBuilder, Topology
from streamtopo.dsl.ktable import KTable
from streamtopo.operators.joins.subscription import Instruction, Subscription
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition
from streamtopo.testing import Driver

Rows = dict[str, str]


def foreign(value: str) -> str | None:
    """Return the key before the colon, if there is one."""
    return value.partition(":")[0] or None


def both(one: str | None, other: str | None) -> str:
    return f"{one}|{other}"


class Kind(NamedTuple):
    """A table made of two, and a model of its rows."""

    build: Callable[[KTable, KTable], KTable]
    model: Callable[[Rows, Rows], Rows | dict[str, int]]


def fk_join(left: Rows, right: Rows) -> Rows:
    return {key: both(value, right[str(foreign(value))]) for key, value in left.items() if foreign(value) in right}


def with_foreign_of_right(left: KTable, right: KTable) -> KTable:
    return left.join(right, lambda one, other: f"{foreign(other) or ''}:{one}", foreign_key=foreign, name="first")


def fk_of_fk(left: Rows, right: Rows) -> Rows:
    rows = {
        key: f"{foreign(right[str(foreign(value))]) or ''}:{value}"
        for key, value in left.items()
        if foreign(value) in right
    }
    return fk_join(rows, right)


def last_letter(key: str, value: str) -> tuple[str, str]:
    return value[-1], value


KINDS = {
    "inner": Kind(
        lambda left, right: left.join(right, both, name="j"),
        lambda left, right: {key: both(left[key], right[key]) for key in left if key in right},
    ),
    "left": Kind(
        lambda left, right: left.left_join(right, both, name="j"),
        lambda left, right: {key: both(left[key], right.get(key)) for key in left},
    ),
    "outer": Kind(
        lambda left, right: left.outer_join(right, both, name="j"),
        lambda left, right: {key: both(left.get(key), right.get(key)) for key in {*left, *right}},
    ),
    "foreign key": Kind(lambda left, right: left.join(right, both, foreign_key=foreign, name="j"), fk_join),
    "foreign key, no store": Kind(lambda left, right: left.join(right, both, foreign_key=foreign), fk_join),
    "left by foreign key": Kind(
        lambda left, right: left.left_join(right, both, foreign_key=foreign, name="j"),
        lambda left, right: {key: both(value, right.get(str(foreign(value)))) for key, value in left.items()},
    ),
    "foreign key of a filtered table": Kind(
        lambda left, right: left.filter(lambda _, value: value[-1] in "024").join(right, both, foreign_key=foreign),
        lambda left, right: fk_join({key: value for key, value in left.items() if value[-1] in "024"}, right),
    ),
    "two foreign keys": Kind(
        lambda left, right: with_foreign_of_right(left, right).join(right, both, foreign_key=foreign, name="j"),
        fk_of_fk,
    ),
    "groups": Kind(
        lambda left, right: left.group_by(last_letter, key=str).count(name="g"),
        lambda left, right: dict(Counter(value[-1] for value in left.values())),
    ),
    "groups of a join": Kind(
        lambda left, right: left.join(right, both, name="j").group_by(last_letter, key=str).count(name="g"),
        lambda left, right: dict(Counter(right[key][-1] for key in left if key in right)),
    ),
    "groups of a join by foreign key": Kind(
        lambda left, right: left.join(right, both, foreign_key=foreign).group_by(last_letter, key=str).count(),
        lambda left, right: dict(Counter(value[-1] for value in fk_join(left, right).values())),
    ),
}


def topology(build: Callable[[KTable, KTable], KTable]) -> Topology:
    builder = StreamsBuilder("app")
    left, right = (builder.table(name, key=str, value=str, name=f"{name}-rows") for name in ("left", "right"))
    build(left, right).to_stream().to("out")
    return builder.build()


class Sent(NamedTuple):
    topic: str
    key: str
    value: str | None


class Batch(NamedTuple):
    """Records sent together; then the worker takes this many turns, and stops, crashes or continues."""

    sent: list[Sent]
    turns: int
    end: str


KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.one_of(
    st.none(), st.builds(lambda key, number: f"{key}:{number}", st.sampled_from("abc "), st.integers(0, 5))
)
SENT = st.builds(Sent, st.sampled_from(["left", "left", "right"]), KEYS, VALUES.map(lambda one: one and one.strip()))
BATCHES = st.lists(
    st.builds(
        Batch,
        st.lists(SENT, min_size=1, max_size=6),
        st.integers(0, 6),
        st.sampled_from(["", "", "", "restart", "crash"]),
    ),
    min_size=2,
    max_size=6,
)


def final_rows(driver: Driver, batches: list[Batch]) -> dict[str, str | int]:
    """Return the final rows of the table, without deleted rows and zero counts."""
    time = 0
    for batch in batches:
        for topic, key, value in batch.sent:
            data = key.encode()
            partition = TopicPartition(topic, partition_of(data, driver.log.topics()[topic].partitions))
            driver.log.append(partition, Columns([data], [value and value.encode()], [time := time + 1]))  # type: ignore[list-item]
        for _ in range(batch.turns):
            driver.worker.run_once()
        if batch.end == "crash":
            driver.crash()
        if batch.end:
            driver.restart()
    driver.run()
    return {key: value for key, value in dict(driver.read("out")).items() if value}


def last_rows(batches: list[Batch], topic: str) -> Rows:
    rows = {one.key: one.value for batch in batches for one in batch.sent if one.topic == topic}
    return {key: value for key, value in rows.items() if value is not None}


@pytest.mark.parametrize("kind", KINDS)
@given(
    batches=BATCHES,
    partitions=st.sampled_from([1, 3]),
    cache=st.sampled_from([0, 1 << 20]),
    chunk=st.sampled_from([1, 3, 10_000]),
)
def test_the_final_rows_follow_from_the_final_inputs(
    kind: str, batches: list[Batch], partitions: int, cache: int, chunk: int
) -> None:
    build, model = KINDS[kind]
    driver = Driver(topology(build), partitions=partitions, cache=cache, chunk=chunk)
    assert final_rows(driver, batches) == model(last_rows(batches, "left"), last_rows(batches, "right"))


JOIN = KINDS["foreign key"].build
GONE = [Sent("left", "k", None), Sent("left", "k", ":no foreign key")]


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("after", range(6))
@pytest.mark.parametrize("end", ["", "crash"])
def test_a_row_put_again_before_the_answer_to_its_deletion(gone: Sent, after: int, end: str) -> None:
    """Its new foreign key has no row, so the earlier joined row is deleted."""
    joined = [Sent("right", "a", "there"), Sent("left", "k", "a:1")]
    driver = Driver(topology(JOIN))
    assert final_rows(driver, [Batch(joined, 20, "")]) == {"k": "a:1|there"}
    driver = Driver(topology(JOIN))
    batches = [Batch(joined, 20, ""), Batch([gone], after, end), Batch([Sent("left", "k", "b:2")], 0, "")]
    assert final_rows(driver, batches) == {}


def test_rows_without_a_foreign_row_send_nothing_one_by_one() -> None:
    driver = Driver(topology(JOIN))
    driver.send("right", "there", key="a")
    for value in ("a:1", None, "b:2", ":none", "b:3", None):
        driver.send("left", value, key="k")
    assert driver.read("out") == [("k", "a:1|there"), ("k", None), ("k", None), ("k", None)]


def test_a_cancellation_sent_by_an_older_version_is_answered() -> None:
    """Older versions sent the hash of the row without a foreign key, and no counter."""
    driver = Driver(topology(JOIN))
    driver.send("right", "there", key="a")
    driver.send("left", "a:1", key="k")
    driver.send("left", ":none", key="k")
    hash = blake2b(b":none", digest_size=16).digest()
    cancel = Subscription(Instruction.CANCEL_AND_ANSWER, hash, b"k", 0)
    registration = TopicPartition("app-j-subscription-registration-topic", 0)
    driver.log.append(registration, Columns([b"a"], [cancel.encode()], [0]))
    driver.run()
    assert driver.read("out") == [("k", "a:1|there"), ("k", None), ("k", None)]
