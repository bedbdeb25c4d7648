"""Random programs, edits of them, and their outputs, computed without the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from streamtopo import StreamsBuilder, Topology, Windows
from tests.upgrades.versions import HOUR

START = 10 * HOUR
Group = Callable[[str, str], str]


def first(key: str, value: str) -> str:
    return value[0]


def last(key: str, value: str) -> str:
    return value[-1]


def whole(key: str, value: str) -> str:
    return key + value


GROUPS = {"first": first, "last": last, "whole": whole}


@dataclass(frozen=True)
class Part:
    """One line of a program: it writes to its own topic."""

    label: str
    named: bool
    kind: str
    group: str = "first"
    type: type = int
    size: int = 10_000
    grace: int = 0
    retention: int = 0
    emit: str = "on_update"

    @property
    def name(self) -> str | None:
        return self.label if self.named else None

    def describe(self, builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        if self.kind == "unique":
            stream.deduplicate(self.size + self.grace, name=self.name).to(f"out-{self.label}")
            return
        table: Any
        if self.kind == "plain":
            ones = stream.group_by(GROUPS[self.group], key=str)
            one = self.type(1)
            table = ones.aggregate(lambda: one * 0, lambda key, value, row: row + one, value=self.type, name=self.name)
        elif self.kind == "session":
            windows = Windows.session(self.size, grace=self.grace)
            table = stream.group_by_key().windowed_by(windows, emit=self.emit).count(name=self.name)
        else:
            every = self.size if self.kind == "tumbling" else self.size // 2
            hopping = Windows.hopping(self.size, every=every, grace=self.grace)
            kept = self.size + self.grace + self.retention
            table = stream.group_by_key().windowed_by(hopping, emit=self.emit).count(name=self.name, retention=kept)
        texts = table.to_stream(lambda key, _: "-".join(map(str, key)) if isinstance(key, tuple) else key, key=str)
        texts.map_values(str, value=str).to(f"out-{self.label}")


@dataclass(frozen=True)
class Program:
    parts: tuple[Part, ...]

    def build(self) -> tuple[Topology, dict[str, Part]]:
        """Return the topology, and the part of each store."""
        builder, stores = StreamsBuilder("up"), dict[str, Part]()
        for part in self.parts:
            part.describe(builder)
            (store,) = builder.build().stores.keys() - stores.keys()
            stores[store] = part
        return builder.build(), stores


_USED = {
    "plain": {"group", "type"},
    "tumbling": {"size", "grace", "retention", "emit"},
    "hopping": {"size", "grace", "retention", "emit"},
    "session": {"size", "grace", "emit"},
    "unique": {"size", "grace"},
}


def parts(label: str) -> st.SearchStrategy[Part]:
    return st.builds(
        lambda kind, named, **options: Part(label, named, kind, **{name: options[name] for name in _USED[kind]}),
        st.sampled_from([*_USED, "plain"]),
        st.booleans(),
        group=st.sampled_from(sorted(GROUPS)),
        type=st.sampled_from([int, float]),
        size=st.sampled_from([5_000, 10_000]),
        grace=st.sampled_from([0, 10_000, 3_600_000]),
        retention=st.sampled_from([0, 600_000]),
        emit=st.sampled_from(["on_update", "on_close"]),
    )


programs = st.integers(1, 3).flatmap(lambda count: st.tuples(*map(parts, "abc"[:count])).map(Program))


@st.composite
def edited(draw: st.DrawFn, program: Program) -> Program:
    """Make one edit: of a line, of their order, of their number."""
    lines = list(program.parts)
    place = draw(st.integers(0, len(lines) - 1))
    how = draw(st.sampled_from(["edit", "edit", "edit", "swap", "drop", "add"]))
    if how == "edit":
        other = draw(parts(lines[place].label))
        names = st.sampled_from(sorted(_USED[lines[place].kind] & _USED[other.kind]) or ["named"])
        changes = {name: getattr(other, name) for name in draw(st.sets(names, min_size=1, max_size=2))}
        lines[place] = replace(lines[place], **changes)
    elif how == "swap":
        lines = draw(st.permutations(lines))
    elif how == "drop" and len(lines) > 1:
        del lines[place]
    else:
        lines.insert(place, draw(parts("m" if "n" in {part.label for part in lines} else "n")))
    return Program(tuple(lines))


Sent = list[tuple[str, str, int]]
sent = st.lists(
    st.tuples(
        st.sampled_from("kl"), st.sampled_from(["xy", "yx", "xx"]), st.integers(0, 50_000).map(lambda at: START + at)
    ),
    min_size=1,
    max_size=8,
)


@dataclass
class Model:
    """The contents of a store, and what its part writes for a record; sessions are left to the engine."""

    rows: dict[Any, Any] = field(default_factory=dict)
    time: int = -1
    closed: int = -1
    put: int = -1

    def write(self, part: Part, rows: Sent) -> list[tuple[str, str]]:
        work = {"plain": self._plain, "tumbling": self._windows, "hopping": self._windows, "unique": self._unique}
        return [out for row in rows for out in work[part.kind](part, *row)]

    def _plain(self, part: Part, key: str, value: str, time: int) -> list[tuple[str, str]]:
        group = GROUPS[part.group](key, value)
        self.rows[group] = self.rows.get(group, part.type(0)) + part.type(1)
        return [(group, str(self.rows[group]))]

    def _unique(self, part: Part, key: str, value: str, time: int) -> list[tuple[str, str]]:
        within = part.size + part.grace
        seen = [at for at in self.rows.setdefault(key, []) if abs(at - time) < within and at > self.put - within]
        if seen:
            return []
        self.put = max(self.put, time)
        self.rows[key].append(time)
        return [(key, value)]

    def _windows(self, part: Part, key: str, value: str, time: int) -> list[tuple[str, str]]:
        self.time = max(self.time, time)
        size, every = part.size, part.size if part.kind == "tumbling" else part.size // 2
        updates = []
        for start in range((time - size) // every * every + every, time + 1, every):
            if start + size + part.grace > self.time:
                self.rows[start, key] = self.rows.get((start, key), 0) + 1
                updates.append((f"{key}-{start}-{start + size}", str(self.rows[start, key])))
        if part.emit == "on_update":
            return updates
        before, self.closed = self.closed, max(self.closed, self.time - part.grace)
        found = sorted(row for row in self.rows if before < row[0] + size <= self.closed)
        return [(f"{key}-{start}-{start + size}", str(self.rows[start, key])) for start, key in found]
