"""The Driver by itself: what it takes, and what it says to what it cannot take."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streamtopo import StreamsBuilder, Worker
from streamtopo.errors import PartitionError, StreamtopoError, TopologyError
from streamtopo.hosting import host
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.testing import Driver


def shouting() -> StreamsBuilder:
    builder = StreamsBuilder("shouting")
    builder.stream("words", value=str).map_values(str.upper).to("shouts")
    return builder


def test_a_topology_is_given_as_it_is_or_by_its_builder_or_its_name() -> None:
    for given in (shouting(), shouting().build()):
        driver = Driver(given)
        driver.send("words", "quiet")
        assert driver.read("shouts") == [(None, "QUIET")]
    assert Driver("apps.wordcount").topology.application_id == "wordcount"
    worker = Worker(shouting(), MemoryLog(), create_topics=1)
    assert worker.plan.topics == (("words",),)
    worker.close()


@pytest.mark.parametrize("needs_one", [Driver, lambda given: Worker(given, log="memory:"), host])
@pytest.mark.parametrize("given", [None, StreamsBuilder, shouting])
def test_what_is_not_a_topology_is_refused(needs_one: Any, given: Any) -> None:
    with pytest.raises(TopologyError, match="is not a topology; give a Topology, a StreamsBuilder, or a name such as"):
        needs_one(given)


def test_a_topic_that_the_topology_does_not_read_is_not_sent_to() -> None:
    builder = shouting()
    builder.stream(re.compile("more-.*"), value=str).group_by(lambda _, word: word, key=str).count().to_stream().to("n")
    driver = Driver(builder)
    said = re.escape('nothing reads topic "wrods"; this topology reads words, all that match more-.*')
    with pytest.raises(StreamtopoError, match=said):
        driver.send("wrods", "x")
    with pytest.raises(StreamtopoError, match=said):
        driver.send_bytes("wrods", b"x")
    driver.send("more-words", "x")
    assert driver.read("n") == [("x", 1)]


def test_a_table_with_other_partitions_is_joined_as_the_error_says() -> None:
    def joined(*, as_it_says: bool) -> StreamsBuilder:
        builder = StreamsBuilder("joined")
        orders = builder.stream("orders", key=str, value=str)
        people = builder.table("people", key=str, value=str)
        if as_it_says:
            people = people.to_stream().repartition(partitions=2).to_table()
        orders.join(people, lambda order, person: f"{order} of {person}").to("out")
        return builder

    log = MemoryLog()
    log.create(Topic("orders", 2))
    log.create(Topic("people", 3))
    with pytest.raises(
        PartitionError, match=r"a table with \.to_stream\(\)\.repartition\(partitions=2\)\.to_table\(\)"
    ):
        Driver(joined(as_it_says=False), log=log)
    driver = Driver(joined(as_it_says=True), log=log, partitions=2)
    for person in ("ann", "bob", "cid"):
        driver.send("people", person.upper(), key=person)
        driver.send("orders", "tea", key=person)
    assert sorted(driver.read("out")) == [(name, f"tea of {name.upper()}") for name in ("ann", "bob", "cid")]
