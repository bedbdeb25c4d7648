"""Records fail at random in all kinds of nodes: the others give the same results as without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import orjson
import pytest

from streamtopo import KStream, Processor, Record, StreamsBuilder, Topology
from streamtopo.testing import Cluster, seeds

KEYS = "abcd"
GARBAGE = b"{not json"


def failing(place: str) -> Callable[..., Any]:
    """A function of a value, or of a key and a value, that raises for the records which are to fail at this place."""

    def check(*row: Any) -> Any:
        value = row[-1]
        value["seen"] = [*value.get("seen", []), place]  # a change in place, which must not be seen twice
        if value["fails"] == place:
            raise ValueError(f"{value['id']} fails at {place}")
        return value

    return check


class Checking(Processor):
    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(failing("processor")(record.value)))


def add(key: Any, value: Any, total: int) -> int:
    failing("adder")(value)
    return total + 1


def of_key(stream: KStream) -> KStream:
    return stream.select_key(lambda _, value: value["key"], key=str)


def branches(builder: StreamsBuilder, stream: KStream) -> None:
    stream = stream.map_values(failing("first"))
    parts = stream.split({"even": lambda _, value: value["id"] % 2 == 0}, default="odd")
    parts["even"].filter(lambda _, value: bool(failing("filter")(value))).to("out", key=str)
    parts["odd"].flat_map_values(lambda value: [failing("flat map")(value)]).map_values(failing("second")).to("out")
    stream.group_by_key().aggregate(lambda: 0, add, value=int, name="counts").to_stream().to("counts")


def processors(builder: StreamsBuilder, stream: KStream) -> None:
    stream = stream.peek(failing("first")).process_values(Checking, value=dict).map_values(failing("second"))
    stream.to("out", partitioner=lambda topic, key, value, count: failing("partitioner")(value) and None)
    stream.group_by_key().aggregate(lambda: 0, add, value=int, name="counts").to_stream().to("counts")


def repartitioned(builder: StreamsBuilder, stream: KStream) -> None:
    stream = of_key(stream.map_values(failing("first"))).repartition().map_values(failing("second"))
    stream.to("out")
    stream.group_by_key().aggregate(lambda: 0, add, value=int, name="counts").to_stream().to("counts")


PROGRAMS: dict[str, tuple[Callable[[StreamsBuilder, KStream], None], list[str]]] = {
    "branches": (branches, ["first", "filter", "flat map", "second", "adder"]),
    "processors": (processors, ["first", "processor", "second", "partitioner", "adder"]),
    "repartitioned": (repartitioned, ["first", "second", "adder"]),
}


def topology(name: str) -> Topology:
    builder = StreamsBuilder("failing")
    PROGRAMS[name][0](builder, builder.stream("in", key=str, value=dict))
    return builder.build()


def records(random: Random, name: str, count: int = 80) -> list[dict[str, Any]]:
    places = [*PROGRAMS[name][1], "decoder"]
    return [
        {"id": number, "key": random.choice(KEYS), "fails": random.choice(places) if random.random() < 0.1 else None}
        for number in range(count)
    ]


def fails(record: dict[str, Any], name: str) -> bool:
    odd = record["id"] % 2 == 1
    skipped = {"filter"} if odd else {"flat map", "second"}
    return record["fails"] is not None and not (name == "branches" and record["fails"] in skipped)


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("name", PROGRAMS)
def test_only_records_that_fail_are_missing(name: str, seed: int) -> None:
    random = Random(f"{name} {seed}")
    sent = records(random, name)
    options: dict[str, Any] = {"cache": random.choice([0, "1MB"]), "on_error": "dead_letter"}
    with Cluster(topology(name), workers=random.choice([1, 2]), partitions=3, seed=seed, **options) as cluster:
        for record in sent:
            at = random.randrange(2_000)
            if record["fails"] == "decoder":
                cluster.send_bytes("in", GARBAGE, key=record["key"].encode(), timestamp=record["id"], at=at)
            else:
                cluster.send("in", record, key=record["key"], timestamp=record["id"], at=at)
        cluster.run()
        letters = cluster.dead_letters()
        good = [record for record in sent if not fails(record, name)]
        assert Counter(value["id"] for _, value in cluster.read("out")) == Counter(one["id"] for one in good)
        assert dict(cluster.read("counts")) == Counter(one["key"] for one in good)
        ids = [one.timestamp for one in letters]
        assert sorted(ids) == [one["id"] for one in sent if fails(one, name)]
        for letter in letters:
            fails_at = sent[letter.timestamp]["fails"]
            message = dict(letter.headers)["__streams.errors.message"] or b""
            assert letter.value == GARBAGE if fails_at == "decoder" else message.endswith(f"at {fails_at}".encode())
            assert fails_at == "decoder" or orjson.loads(letter.value)["id"] == letter.timestamp
