"""Random cases in the schema of the conformance cases: a topology, and records to send through it.

A part (`windowed.py` is one) lists what it can add after a stream: functions that take a `Growing` and the id of a
stream, add steps, and return the id of the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.differential import mixed, tables, windowed

Step = dict[str, Any]
Case = dict[str, Any]

PARTS: list[Callable[[Any, str], str]] = [*windowed.PARTS, *tables.PARTS, *mixed.PARTS]
KEYS: list[Any] = ["A", "B", "C", None]
VALUES = ["1", "2", "30", None]


@dataclass
class Growing:
    """A topology under construction; `add` returns the new step's id."""

    random: Random
    steps: list[Step] = field(default_factory=list)
    order: str = "strict"
    subject: str = ""
    inputs: list[str] = field(default_factory=list)

    def add(self, op: str, before: str | None = None, **fields: Any) -> str:
        id = f"s{len(self.steps)}"
        self.steps.append({"id": id, "op": op, "from": before, **fields})
        return id

    def source(self) -> str:
        self.inputs.append(f"in{len(self.inputs)}")
        return self.add("stream", topic=self.inputs[-1])

    def chance(self, share: float) -> bool:
        return self.random.random() < share


def case(seed: int) -> Case:
    random = Random(seed)
    growing = Growing(random)
    stream = prepared(growing, growing.source())
    random.choice(PARTS)(growing, stream)
    return {
        "id": f"random-{seed}",
        "operator": growing.subject,
        "topology": " ".join(step["op"] for step in growing.steps),
        "params": {"steps": growing.steps},
        "inputs": records(random, growing.inputs),
        "order": growing.order,
    }


def prepared(growing: Growing, stream: str) -> str:
    """Return the stream after none, one or two stateless operators."""
    for _ in range(growing.random.choice([0, 0, 0, 1, 2])):
        match growing.random.choice(["map_values", "flat_map_values", "merge", "select_key"]):
            case "map_values":
                stream = growing.add("map_values", stream, fn="to_string")
            case "flat_map_values":
                stream = growing.add("flat_map_values", stream, fn="v_and_V")
            case "merge":
                stream = growing.add("merge", stream, other=growing.source())
            case _:
                stream = growing.add("select_key", stream, fn="key")
    return stream


def records(random: Random, topics: list[str]) -> list[Step]:
    """Return records whose times advance in small and some large steps, and fall back; boundaries are often met."""
    time, sent = random.choice([0, 0, 3, 40]), []
    for _ in range(random.randint(2, 14)):
        time += random.choice([0, 0, 1, 1, 2, 3, 5, 5, 10, 10, 11, 37])
        late = random.choice([0, 0, 0, 1, 2, 5, 9, 10, 11, 20, 21])
        key, value = random.choices(KEYS, [8, 5, 3, 1])[0], random.choices(VALUES, [5, 5, 5, 1])[0]
        sent.append({"topic": random.choice(topics), "key": key, "value": value, "ts": max(0, time - late)})
    return sent
