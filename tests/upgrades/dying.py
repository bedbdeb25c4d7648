"""Start with `accept_changes` and die before a step: `python -m tests.upgrades.dying FOLDER STEP`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from streamtopo import StreamsBuilder, Topology
from streamtopo.logs.embedded import EmbeddedLog
from tests.upgrades.versions import Home, built, shown

DIED = 7


def summing(kind: type, name: str = "sum") -> Callable[[StreamsBuilder], None]:
    def describe(builder: StreamsBuilder) -> None:
        values = builder.stream("in", key=str, value=str).map_values(kind, value=kind)
        shown(values.group_by_key().reduce(lambda row, value: row + value, name=name))

    return describe


def counting(builder: StreamsBuilder) -> None:
    shown(builder.stream("in", key=str, value=str).group_by_key().count(name="count"))


def both(*parts: Callable[[StreamsBuilder], None]) -> Topology:
    return built(lambda builder: [part(builder) for part in parts])


class Dying(EmbeddedLog):
    """End the process before a note is written, a topic is deleted, this is noted, or the last note is written."""

    step = ""
    notes = 0

    def write_note(self, name: str, text: str) -> None:
        self.notes += 1
        if (self.step, self.notes) in [("note", 1), ("deleted", 2), ("created", 3)]:
            os._exit(DIED)
        super().write_note(name, text)

    def delete(self, topic: str) -> None:
        if self.step == "delete":
            os._exit(DIED)
        super().delete(topic)


if __name__ == "__main__":
    log = Dying(Path(sys.argv[1]) / "log")
    log.step = sys.argv[2]
    Home(Path(sys.argv[1]), (), log).start(both(summing(str), counting), accept_changes=True)
