"""The Driver itself: what it accepts, and the errors for what it does not."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streamtopo import StreamsBuilder, Worker
from streamtopo.errors import ConfigError, PartitionError, StreamtopoError, TopologyError
from streamtopo.hosting import host
from streamtopo.logs import Topic
from streamtopo.logs.memory import MemoryLog
from streamtopo.testing import Driver, DriverRecord


def shouting() -> StreamsBuilder:
    builder = StreamsBuilder("shouting")
    builder.stream("words", value=str).map_values(str.upper).to("shouts")
    return builder


def test_a_topology_is_given_as_an_object_a_builder_or_a_name() -> None:
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
def test_other_arguments_are_refused(needs_one: Any, given: Any) -> None:
    with pytest.raises(TopologyError, match="is not a topology; give a Topology, a StreamsBuilder, or a name such as"):
        needs_one(given)


def test_records_for_unread_topics_are_refused() -> None:
    builder = shouting()
    builder.stream(re.compile("more-.*"), value=str).group_by(lambda _, word: word, key=str).count().to_stream().to("n")
    driver = Driver(builder)
    message = re.escape('nothing reads topic "wrods"; this topology reads words, all that match more-.*')
    with pytest.raises(StreamtopoError, match=message):
        driver.send("wrods", "x")
    with pytest.raises(StreamtopoError, match=message):
        driver.send_bytes("wrods", b"x")
    driver.send("more-words", "x")
    assert driver.read("n") == [("x", 1)]


def test_a_table_with_another_number_of_partitions_is_joined_as_the_error_advises() -> None:
    def joined(*, as_advised: bool) -> StreamsBuilder:
        builder = StreamsBuilder("joined")
        orders = builder.stream("orders", key=str, value=str)
        people = builder.table("people", key=str, value=str)
        if as_advised:
            people = people.to_stream().repartition(partitions=2).to_table()
        orders.join(people, lambda order, person: f"{order} of {person}").to("out")
        return builder

    log = MemoryLog()
    log.create(Topic("orders", 2))
    log.create(Topic("people", 3))
    with pytest.raises(
        PartitionError, match=r"a table with \.to_stream\(\)\.repartition\(partitions=2\)\.to_table\(\)"
    ):
        Driver(joined(as_advised=False), log=log)
    driver = Driver(joined(as_advised=True), log=log, partitions=2)
    for person in ("ann", "bob", "cid"):
        driver.send("people", person.upper(), key=person)
        driver.send("orders", "tea", key=person)
    assert sorted(driver.read("out")) == [(name, f"tea of {name.upper()}") for name in ("ann", "bob", "cid")]


@pytest.mark.parametrize("cache", ["1MB", "64 kB", 1000])
def test_the_size_of_the_cache_is_given_as_for_a_worker(cache: int | str) -> None:
    builder = StreamsBuilder("counting")
    builder.stream("words", key=str, value=str).group_by_key().count(name="counts").to_stream().to("counts")
    driver = Driver(builder, cache=cache)
    driver.send_all([DriverRecord("words", "a", "x", 0)] * 3)
    assert driver.read("counts") == [("a", 3)]
    with pytest.raises(ConfigError, match="'1 mega' is not a size"):
        Driver(builder, cache="1 mega")


def test_a_record_without_a_partition_goes_to_that_of_its_key() -> None:
    builder = StreamsBuilder("counting")
    builder.stream("words", key=str, value=str).group_by_key().count(name="counts")
    driver = Driver(builder, partitions=4)
    driver.send_all(DriverRecord("words", key, "", 0) for key in "abcdefgh")
    for key in "abcdefgh":
        driver.send("words", "", key=key)
    assert set(driver.store("counts").all()) == {(key, 2) for key in "abcdefgh"}
