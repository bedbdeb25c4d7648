"""Nodes that run record by record: each row goes through all it leads to before the next one is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from streamtopo.engine.stations import Edge, Flow, Station
from streamtopo.records import EVERY_CHILD, Chunk, Order, below, concatenate, interleave


class DepthFirst:
    """Right wherever processors see each other's stores; elsewhere slower than a station, with the same result."""

    def __init__(self, stations: list[Station]) -> None:
        self.stations = {station.name: station for station in stations}
        self.names = frozenset(self.stations)
        self.arriving = [edge for station in stations for edge in station.arriving if edge.parent not in self.names]
        self._exits: dict[Edge, list[Chunk]] = {}
        self._base: Order = 0
        self._emitted = 0
        for station in stations:
            if hasattr(station.step, "push"):
                station.step.push = self._pusher(station)

    def run(self, flow: Flow, given: Mapping[str, Chunk]) -> None:
        arrived = [(edge.child, edge.side, flow.pop(edge)) for edge in self.arriving if edge in flow]
        arrived += [(name, 0, chunk) for name, chunk in given.items() if name in self.names]
        if not arrived:
            return
        rows = interleave([chunk for _, _, chunk in arrived])
        for place, origin in enumerate(rows.sides or ()):
            child, side, _ = arrived[origin]
            self._begin(rows, place)
            self._push(child, side, rows.row(place))
        self._leave(flow)

    def flush(self, flow: Flow) -> None:
        for station in self.stations.values():
            if hasattr(station.step, "flush"):
                rows = station.numbers.assign(station.attempt(station.step.flush))
                for place in range(len(rows)):
                    self._begin(rows, place)
                    self._emit(station, rows.row(place))
        self._leave(flow)

    def act(self, node: str, time: int, call: Callable[[], object], flow: Flow) -> None:
        station = self.stations[node]
        self._begin(station.numbers.assign(Chunk([None], [None], [0])), 0)
        station.attempt(station.step.during, time, call)
        self._leave(flow)

    def _begin(self, rows: Chunk, place: int) -> None:
        self._base = rows.order[place] if rows.order is not None else 0
        self._emitted = 0

    def _push(self, name: str, side: int, row: Chunk) -> None:
        station = self.stations[name]
        row = replace(row, sides=[side])
        self._emit(station, station.attempt(station.step, row if station.leaving else self._in_turn(row)))

    def _pusher(self, station: Station) -> Callable[[Chunk], None]:
        return lambda row: self._emit(station, row)

    def _emit(self, station: Station, rows: Chunk) -> None:
        for row in _rows(rows):
            for edge in station.leaving:
                if row.routes is not None and row.routes[0] not in (edge.position, EVERY_CHILD):
                    continue
                passed = replace(edge.carry(row), order=None if row.order is None else [self._base])
                if edge.child in self.names:
                    self._push(edge.child, edge.side, passed)
                else:
                    self._exit(edge, passed)

    def _exit(self, edge: Edge, row: Chunk) -> None:
        self._exits.setdefault(edge, []).append(self._in_turn(row))

    def _in_turn(self, row: Chunk) -> Chunk:
        """The row's order says when, in the course of the record it stems from, it came out here."""
        self._emitted += 1
        return row if row.order is None else replace(row, order=[below(self._base, self._emitted)])

    def _leave(self, flow: Flow) -> None:
        for edge, rows in self._exits.items():
            flow[edge] = replace(concatenate(rows), sides=None)
        self._exits = {}


def _rows(chunk: Chunk) -> Iterator[Chunk]:
    return iter([chunk]) if len(chunk) == 1 else (chunk.row(place) for place in range(len(chunk)))
