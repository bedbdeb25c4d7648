"""The processors that cases name, written with the Processor API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamtopo import Processor, ProcessorContext, Record
from tests.conformance.functions import function, s
from tests.conformance.unsupported import Unsupported

Spec = dict[str, Any]


def spec_of(processor: Any) -> Spec:
    """`"forward"` is short for `{"name": "forward"}`."""
    return {"name": processor} if isinstance(processor, str) else processor


def supplier(spec: Spec) -> Callable[[], Processor]:
    if spec["name"] not in _BEHAVIOURS:
        raise Unsupported(f"processor {spec['name']}")
    return lambda: CaseProcessor(spec)


class CaseProcessor(Processor):
    """One named behaviour for records, and the punctuations that the case describes."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.store: Any = None
        self.total = 0
        self._behave = _BEHAVIOURS[spec["name"]]

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        if "store" in self.spec:
            self.store = context.get_state_store(self.spec["store"])
        for plan in self.spec.get("punctuate", ()):
            self._schedule(plan)

    def process(self, record: Record) -> None:
        self._behave(self, record)

    def _schedule(self, plan: Spec) -> None:
        act = _ACTIONS[plan["action"]]
        calls = 0

        def call(time: int) -> None:
            nonlocal calls
            calls += 1
            act(self, plan, time)
            if calls == plan.get("times"):
                schedule.cancel()

        schedule = self.context.schedule(plan["interval_ms"], plan["type"], call)


def _forward(self: CaseProcessor, record: Record) -> None:
    self.context.forward(record)


def _swallow(self: CaseProcessor, record: Record) -> None:
    """Forward nothing."""


def _forward_with_offset_ts(self: CaseProcessor, record: Record) -> None:
    self.context.forward(record.with_timestamp(record.timestamp + self.spec["arg"]))


def _forward_stream_time(self: CaseProcessor, record: Record) -> None:
    self.context.forward(record.with_value(self.context.current_stream_time_ms()))


def _fan_out(self: CaseProcessor, record: Record) -> None:
    for to in self.spec["forwards"]:
        self.context.forward(record.with_timestamp(record.timestamp + to.get("ts_offset", 0)), to.get("child"))


def _recursive(self: CaseProcessor, record: Record) -> None:
    if not record.value.startswith("recurse-"):
        self.context.forward(record.with_value(f"recurse-{record.value}"), self.spec["recursive_child"])
    for child in self.spec["children"]:
        self.context.forward(record, child)


def _max_into_store(self: CaseProcessor, record: Record) -> None:
    kept = self.store.get(record.key)
    if kept is None or record.value > kept:
        self.store.put(record.key, record.value)


def _put_into_store(self: CaseProcessor, record: Record) -> None:
    self.store.put(record.key, record.value)


def _strip_at(self: CaseProcessor, record: Record) -> None:
    self.context.forward(record.with_value(s(record.value).split("@")[0]))


def _scale_key_value(self: CaseProcessor, record: Record) -> None:
    self.total += record.value
    self.context.forward(record.with_key(record.key * 2).with_value(self.total))


def _map(self: CaseProcessor, record: Record) -> None:
    self.context.forward(record.with_value(function(self.spec["fn"])(record.key, record.value)))


def _forward_timestamp(self: CaseProcessor, plan: Spec, time: int) -> None:
    self.context.forward(Record(plan["key"], time, time))


def _forward_store(self: CaseProcessor, plan: Spec, time: int) -> None:
    for key, value in self.store.all():
        self.context.forward(Record(key, value, time))


_BEHAVIOURS: dict[str, Callable[[CaseProcessor, Record], None]] = {
    "forward": _forward,
    "swallow": _swallow,
    "forward_with_offset_ts": _forward_with_offset_ts,
    "forward_stream_time": _forward_stream_time,
    "fan_out": _fan_out,
    "recursive": _recursive,
    "max_into_store": _max_into_store,
    "put_into_store": _put_into_store,
    "strip_at": _strip_at,
    "scale_key_value": _scale_key_value,
    "map": _map,
}
_ACTIONS: dict[str, Callable[[CaseProcessor, Spec, int], None]] = {
    "forward_timestamp": _forward_timestamp,
    "forward_store": _forward_store,
    "forward_times_then_cancel": _forward_timestamp,
}
