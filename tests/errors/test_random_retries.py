"""Records fail a few times, or always, while workers are killed: each is processed once in the end, or set aside."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

import orjson
import pytest

from streamtopo import KStream, Processor, Record, Serde, StreamsBuilder, Topology, key_value_store, retry
from streamtopo.testing import Cluster, seeds

KEYS, TOPICS = "abcde", ("left", "right")
ATTEMPTS = 3
ALWAYS = 1_000_000


class Service:
    """Fails as often as the record says, at the place that the record says. It does not end with a worker."""

    def __init__(self) -> None:
        self.calls = Counter[int]()

    def at(self, place: str) -> Callable[..., Any]:
        def call(*row: Any) -> Any:
            value = row[-1]
            if value["place"] == place:
                self.calls[value["id"]] += 1
                if self.calls[value["id"]] <= value["failures"]:
                    raise ConnectionError(f"{value['id']} is not known at {place}")
            return value

        return call

    def serde(self) -> Serde:
        return Serde("looked up", orjson.dumps, lambda data: self.at("decoder")(orjson.loads(data)))


class Numbered(Processor):
    """Numbers the records of each key; it fails after it has changed the store."""

    check: Callable[..., Any]

    def process(self, record: Record) -> None:
        rows = self.context.get_state_store("numbers")
        number = (rows.get(record.key) or 0) + 1
        rows.put(record.key, number)
        value = self.check(record.value)
        self.context.forward(record.with_value({**value, "number": number}))


def steps(stream: KStream, service: Service) -> None:
    stream.map_values(service.at("first")).filter(lambda _, value: bool(service.at("second")(value))).to("out")


def processors(stream: KStream, service: Service) -> None:
    supplier = type("Supplier", (Numbered,), {"check": staticmethod(service.at("second"))})
    numbers = key_value_store("numbers", key=str, value=int)
    stream.map_values(service.at("first")).process_values(supplier, stores=[numbers], value=dict).to("out")


def repartitioned(stream: KStream, service: Service) -> None:
    stream = stream.peek(service.at("first")).select_key(lambda _, value: value["key"], key=str).repartition()
    stream.map_values(service.at("second")).to("out")


def joined(stream: KStream, service: Service) -> None:
    table = stream.peek(service.at("first")).to_table(store="table").filter(lambda *_: True)
    stream.left_join(table, lambda value, row: service.at("second")(value) and (row and value)).to("out")


PROGRAMS = {program.__name__: program for program in (steps, processors, repartitioned, joined)}
PLACES = ["decoder", "first", "second"]


def topology(program: str, service: Service) -> Topology:
    """What always fails becomes a dead letter, except at the sources, where it is skipped."""
    builder = StreamsBuilder("trying")
    builder.on_error(retry(ATTEMPTS, backoff="50ms", then="dead_letter"))
    given: dict[str, Any] = {"key": str, "value": service.serde()}
    one, other = (builder.stream(name, **given, on_error=retry(ATTEMPTS, then="skip")) for name in TOPICS)
    PROGRAMS[program](one.merge(other), service)
    return builder.build()


def records(random: Random) -> list[dict[str, Any]]:
    failures = [0] * 15 + [*range(1, ATTEMPTS + 1), ALWAYS]
    made = []
    for number in range(60):
        value = {"id": number, "key": random.choice(KEYS), "topic": random.choice(TOPICS)}
        made.append(value | {"place": random.choice(PLACES), "failures": random.choice(failures)})
    return made


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_heals_is_processed_once_and_in_order_and_the_rest_is_set_aside(program: str, seed: int) -> None:
    random, service = Random(f"{program} {seed}"), Service()
    sent = records(random)
    options: dict[str, Any] = {"cache": random.choice([0, "1MB"]), "workers": random.choice([1, 2])}
    with Cluster(topology(program, service), partitions=3, seed=seed, **options) as cluster:
        for at, value in zip(sorted(random.choices(range(5_000), k=len(sent))), sent, strict=True):
            cluster.send(value["topic"], value, key=value["key"], timestamp=value["id"], at=at)
        cluster.run()
        outputs = [value for _, value in cluster.read("out")]
        assert in_order(outputs) == in_order([value for value in sent if value["failures"] != ALWAYS])
        letters = sorted(cluster.dead_letters(), key=lambda letter: letter.timestamp)
        wrong = [value for value in sent if value["failures"] == ALWAYS and value["place"] != "decoder"]
        assert [letter.value for letter in letters] == [orjson.dumps(value) for value in wrong]
        assert all(dict(one.headers)["__streamtopo.errors.attempts"] == b"%d" % (ATTEMPTS + 1) for one in letters)
        if program == "processors":
            assert numbers_by_key(outputs) == {key: [*range(1, len(them) + 1)] for key, them in by_key(outputs).items()}


def in_order(values: list[dict[str, Any]]) -> dict[tuple[str, str], list[int]]:
    """The ids of each key from each topic."""
    found = defaultdict(list)
    for value in values:
        found[value["topic"], value["key"]].append(value["id"])
    return dict(found)


def by_key(values: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    for value in values:
        found[value["key"]].append(value)
    return found


def numbers_by_key(values: list[dict[str, Any]]) -> dict[str, list[int]]:
    return {key: [value["number"] for value in them] for key, them in by_key(values).items()}
