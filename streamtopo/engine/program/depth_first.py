"""Nodes that run record by record: each row passes all nodes after it before the next row is processed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from streamtopo.engine.program.edges import Edge, Flow
from streamtopo.engine.program.processor_step import ProcessStep, Push
from streamtopo.engine.program.stations import PASSED_ON, Failure, Station, wrapped
from streamtopo.processors import Record
from streamtopo.records import EVERY_CHILD, Chunk, Order, below, interleave, private


class DepthFirst:
    """Needed where processors share stores. Elsewhere stations give the same result faster."""

    def __init__(self, stations: list[Station]) -> None:
        self.names = frozenset(station.name for station in stations)
        self.running = ""
        arriving = [edge for station in stations for edge in station.edges.arriving]
        self._arriving = [edge for edge in arriving if edge.parent not in self.names]
        self.hears = frozenset(edge.parent for edge in self._arriving)
        self._stations = {station.name: station for station in stations}
        self._exits: dict[Edge, _Exit] = {}
        self._base: Order = 0
        """The order of the row that is being processed; it came from outside or from a cache."""
        self._emitted = 0
        self._processors: dict[str, ProcessStep] = {}
        for station in stations:
            if isinstance(station.step, ProcessStep):
                station.step.push = self._pusher(station)
                self._processors[station.name] = station.step

    def run(self, flow: Flow, given: Mapping[str, Chunk]) -> None:
        arrived = [(edge.child, edge.side, flow.rows.pop(edge)) for edge in self._arriving if edge in flow.rows]
        arrived += [(name, 0, chunk) for name, chunk in given.items() if name in self.names]
        if not arrived:
            return
        rows = interleave([chunk for _, _, chunk in arrived])
        for place, origin in enumerate(rows.sides or ()):
            child, side, _ = arrived[origin]
            self._take(self._stations[child], side, self._begin(rows, place), _old_at(rows, place))
        self._leave(flow)

    def before_commit(self, flow: Flow) -> None:
        for station in self._stations.values():
            self._emit_all(station, station.held_back())
        self._leave(flow)

    def advance(self, flow: Flow, time: int) -> None:
        for station in self._stations.values():
            self.running = station.name
            self._emit_all(station, station.closed_by(time))
        self._leave(flow)

    def punctuate(self, node: str, time: int, call: Callable[[], object], flow: Flow) -> None:
        station = self._stations[node]
        self._begin(station.moment(time), 0)
        station.attempt(station.step.punctuate, time, call)
        self._leave(flow)

    def _begin(self, rows: Chunk, place: int) -> Record:
        assert rows.order is not None, "the user's processors are here, so rows are numbered"
        self._base = rows.order[place]
        self._emitted = 0
        headers = () if rows.headers is None else rows.headers[place]
        return Record(rows.keys[place], rows.values[place], rows.timestamps[place], headers)

    def _take(self, station: Station, side: int, record: Record, old: Any) -> None:
        processor = self._processors.get(station.name)
        try:
            if processor is not None:
                processor.take(record, self._base)
                return
            self.running = station.name
            order = self._base if station.edges.leaving else self._next_order()
            out = station.step.process(_one_row(record, order, side, old))
        except PASSED_ON:
            raise
        except wrapped() as error:
            raise Failure(station.name, error) from error
        headers = out.headers or [()] * len(out)
        routes = out.routes or [EVERY_CHILD] * len(out)
        olds = out.old or [None] * len(out)
        for *row, route, old in zip(out.keys, out.values, out.timestamps, headers, routes, olds, strict=True):
            self._emit(station, Record(*row), route, old)

    def _pusher(self, station: Station) -> Push:
        return lambda record, route: self._emit(station, record, route)

    def _emit_all(self, station: Station, rows: Chunk) -> None:
        """Rows that were not made by a record."""
        routes = rows.routes or [EVERY_CHILD] * len(rows)
        for place, route in enumerate(routes):
            self._emit(station, self._begin(rows, place), route, _old_at(rows, place))

    def _emit(self, station: Station, record: Record, route: int, old: Any = None) -> None:
        for edge in station.edges.leaving:
            if route != EVERY_CHILD and route != edge.position:
                continue
            passed, passed_old = (record.private(), private(old)) if edge.copies else (record, old)
            if edge.child in self.names:
                self._take(self._stations[edge.child], edge.side, passed, passed_old)
            else:
                self._exits.setdefault(edge, _Exit()).add(passed, self._next_order(), passed_old)

    def _next_order(self) -> Order:
        """The order of the next row that leaves here."""
        self._emitted += 1
        return below(self._base, self._emitted)

    def _leave(self, flow: Flow) -> None:
        for edge, rows in self._exits.items():
            flow.send(edge, rows.chunk())
        self._exits = {}


class _Exit:
    """Rows that leave along one edge."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._order: list[Order] = []
        self._old: list[Any] = []

    def add(self, record: Record, order: Order, old: Any) -> None:
        self._records.append(record)
        self._order.append(order)
        self._old.append(old)

    def chunk(self) -> Chunk:
        keys, values, timestamps, headers = (list(column) for column in zip(*self._records, strict=True))
        return Chunk(keys, values, timestamps, headers if any(headers) else None, self._order, old=self._old)


def _one_row(record: Record, order: Order, side: int, old: Any) -> Chunk:
    key, value, timestamp, headers = record
    return Chunk([key], [value], [timestamp], [headers] if headers else None, [order], [side], old=[old])


def _old_at(rows: Chunk, place: int) -> Any:
    return None if rows.old is None else rows.old[place]
