"""Describes the state that a topology leaves on a log, so that a later version cannot lose or misread it.

There is an entry for each store and each internal topic. It says what the bytes in the topic mean: the kind, the types
of keys and values with the names of their fields, and the size of windows, because keys only have their start. If the
name was generated, it also says what the rows are made from. A changed meaning is refused. The layout of rows in the
local database is another question, which the stamp of each store answers (`stores/trust.py`): rows in another layout
are read again from the changelog, so grace, retention, gap and `emit` can be edited.

An entry is a JSON object; versions are compared by the parts that both have. In logs of older programs it is a text:
the part called `is` here, with `older` to mark it. The whole note is an object of entries by name, and two more parts:
`deleting`, the topics, with their ids, that an accepted change still has to delete, and `emptied`, how often each store
was emptied (`accepted_changes.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from streamtopo.engine.compatibility.field_types import readable
from streamtopo.engine.compatibility.lineage import Lineage, is_numbered
from streamtopo.engine.plan import Plan
from streamtopo.errors import FingerprintError
from streamtopo.serdes import Serde
from streamtopo.serdes.record_fields import DEFAULT, fields_of, without_names
from streamtopo.stores import StoreSpec
from streamtopo.topology import Topology
from streamtopo.topology.nodes import SinkNode

FingerprintEntry = Mapping[str, Any]
"""What must not change in a store or an internal topic. Stateless nodes leave nothing behind."""
TOPIC, STORE = "topic ", "store "
_RESET = "reset"
_UNFINISHED = "started and not finished; run streamtopo reset again"
_GENERATED = "generated names depend on the order of the lines in a program; restore the old order"
_AGGREGATORS = (
    "; older versions gave ready aggregators float or dict where the program gives no type: "
    "with sum(value=float) or first(value=dict) their rows are kept"
)
_RENAMED = (
    "a renamed field would lose its values; if this is not a rename, remove the old field first, "
    "and add the new one later"
)
_FIELDS = {"key fields": "field of the key", "value fields": "field"}


@dataclass(frozen=True)
class Fingerprint:
    entries: Mapping[str, FingerprintEntry]
    deleting: Mapping[str, str] = field(default_factory=dict)
    emptied: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def read(text: str | None) -> Fingerprint:
        kept = orjson.loads(text) if text else {}
        deleting, emptied = kept.pop("deleting", {}), kept.pop("emptied", {})
        entries = {name: {"is": it, "older": True} if isinstance(it, str) else it for name, it in kept.items()}
        return Fingerprint(entries, deleting, emptied)

    def text(self) -> str:
        more = {"deleting": self.deleting, "emptied": self.emptied}
        whole = dict(self.entries) | {name: value for name, value in more.items() if value}
        return orjson.dumps(whole, option=orjson.OPT_SORT_KEYS).decode()

    @property
    def topics(self) -> set[str]:
        """The internal topics that were left behind."""
        return {name.removeprefix(TOPIC) for name in self.entries if name.startswith(TOPIC)} | self.deleting.keys()


def note_of(topology: Topology) -> str:
    """The name of the note in the log."""
    return f"{topology.application_id}/fingerprint"


def unfinished(text: str | None) -> str:
    """A note that no topology fits, while state and positions are being deleted."""
    return orjson.dumps((orjson.loads(text) if text else {}) | {_RESET: _UNFINISHED}).decode()


# -- what a topology leaves behind


def entries_of(topology: Topology, planned: Plan) -> dict[str, FingerprintEntry]:
    lineage = Lineage(topology)
    entries: dict[str, FingerprintEntry] = {
        f"{TOPIC}{topic.name}": _counted(topic.partitions) for topic in planned.internal
    }
    for name in topology.repartitions:
        if (line := f"{TOPIC}{topology.topic_of(name)}") in entries:
            made = lineage.of_topic(name) if is_numbered(name) else {}
            entries[line] = dict(entries[line]) | _written(topology, name) | made
    for subtopology, tasks in zip(planned.subtopologies, planned.tasks, strict=True):
        for spec in subtopology.stores if tasks else ():
            made = lineage.of_store(spec.name) if is_numbered(spec.name) else {}
            entries[f"{STORE}{spec.name}"] = _store(spec, tasks) | made
    return entries


def _counted(partitions: int) -> dict[str, Any]:
    return {"is": f"{partitions} partitions"}


def _store(spec: StoreSpec, tasks: int) -> dict[str, Any]:
    types = f"key {spec.key.name}, value {spec.value.name}"
    entry = {"is": f"{spec.kind.value}, {types}, {tasks} partitions"}
    if (unnamed := _types(spec.key, spec.value)) != types:
        entry["bytes"] = f"{spec.kind.value}, {unnamed}, {tasks} partitions"
    if spec.meaning:
        entry["rows"] = spec.meaning
    return entry | _fields(spec.key, spec.value)


def _types(key: Serde, value: Serde) -> str:
    """Without the names of record types: these may change, as long as the fields are the same."""
    return f"key {without_names(key.name, key.kind)}, value {without_names(value.name, value.kind)}"


def _written(topology: Topology, topic: str) -> dict[str, Any]:
    """What sinks write into a repartition topic; all sinks of a topic write the same."""
    for node in topology.nodes.values():
        if isinstance(node, SinkNode) and node.topic == topic:
            return {"records": _types(node.key, node.value)} | _fields(node.key, node.value)
    return {}


def _fields(key: Serde, value: Serde) -> dict[str, Any]:
    found = zip(_FIELDS, (fields_of(key.kind), fields_of(value.kind)), strict=True)
    return {name: fields for name, fields in found if fields}


# -- comparing


@dataclass(frozen=True)
class TopologyChanges:
    refused: Mapping[str, list[str]]
    """The reasons for each entry that no longer fits."""
    news: list[str]
    """What is new and allowed."""

    def error(self) -> FingerprintError:
        broken = [f"  {name}: {reason}" for name, reasons in sorted(self.refused.items()) for reason in reasons]
        return FingerprintError(
            "the topology no longer fits its stored state:\n" + "\n".join(broken) + "\n"
            "go back to the version that wrote it; or start with --accept-changes to delete the state of these stores "
            "and the records in these topics, so that they start empty, and everything else is kept; or give the new "
            "version another application id: it computes everything again, and does not change this state "
            "(streamtopo reset does this with the same id, and deletes this state)"
        )


def compare(before: Mapping[str, FingerprintEntry], now: Mapping[str, FingerprintEntry]) -> TopologyChanges:
    if _RESET in before:
        raise FingerprintError(f"the old state of the topology must be deleted first: {_RESET}: {_UNFINISHED}")
    refused, news = {}, [name for name in now if name not in before] if before else []
    for name, was in before.items():
        reasons = [_gone(name, before, now)] if name not in now else [*_reasons(was, now[name])]
        if name in now and not reasons:
            reasons = [*_moved(name, before, now)]
            news += [f"{name}, {line}" for line in _news(was, now[name])]
        if reasons:
            refused[name] = reasons
    return TopologyChanges(refused, sorted(news))


def _gone(name: str, before: Mapping[str, FingerprintEntry], now: Mapping[str, FingerprintEntry]) -> str:
    was = before[name]
    went = [*_changed(was["by"], now, before)] if "by" in was else []
    alike = [one for one in now if one.startswith(STORE) and one not in before and now[one]["is"] == was["is"]]
    hint = ""
    if went:
        hint = f", and {went[0]} is now what it was: {_GENERATED}"
    elif alike:
        old = name.removeprefix(STORE)
        hint = f', and {alike[0]} is new; if that is its new name, give it the old one again (name="{old}")'
    return f"{was['is']} -> gone{hint}"


def _reasons(was: FingerprintEntry, now: FingerprintEntry) -> Iterator[str]:
    if was["is"] != now["is"] and ("bytes" not in was or was["bytes"] != now.get("bytes")):
        yield f"{was['is']} -> {now['is']}" + (_AGGREGATORS if "older" in was else "")
    for part in ("rows", "records"):
        if part in was and part in now and was[part] != now[part]:
            yield f"{was[part]} -> {now[part]}"
    for part, what in _FIELDS.items():
        if part in was and part in now:
            yield from _lost_fields(was[part], now[part], what, key=part == "key fields")
    if gone := sorted(set(was.get("from", ())) - set(now.get("from", was.get("from", ())))):
        yield f"was made from {', '.join(gone)}, and is made from {', '.join(now['from'])} now: {_GENERATED}"


def _lost_fields(was: Mapping[str, str], now: Mapping[str, str], what: str, *, key: bool) -> Iterator[str]:
    gone, new = ([f'"{name}"' for name in one if name not in other] for one, other in ((was, now), (now, was)))
    required = [f'"{name}"' for name in now if name not in was and not now[name].endswith(DEFAULT)]
    if key and gone + new:
        changed = ", ".join([*(f"{name} is gone" for name in gone), *(f"{name} is new" for name in new)])
        yield f"{what} {changed}, so rows under the old keys would not be found"
    elif gone and new:
        yield f"{what} {', '.join(gone)} is gone, {', '.join(new)} is new: {_RENAMED}"
    elif required:
        yield f"{what} {', '.join(required)} is new and has no default, so rows without it cannot be read"
    for name in was.keys() & now.keys():
        before, after = was[name].removesuffix(DEFAULT), now[name].removesuffix(DEFAULT)
        if not readable(before, after, key=key):
            yield f'{what} "{name}": {before} -> {after}'


def _moved(name: str, before: Mapping[str, FingerprintEntry], now: Mapping[str, FingerprintEntry]) -> Iterator[str]:
    """An edited function is allowed. But a store must not become what another store was, or the other way round."""
    was, by = before[name].get("by"), now[name].get("by")
    if was is None or by is None or was == by:
        return
    if came := [*_changed(by, before, now)]:
        yield f"is now what {came[0]} was before: {_GENERATED}"
    elif went := [*_changed(was, now, before)]:
        yield f"{went[0]} is now what it was before: {_GENERATED}"


def _changed(by: str, one: Mapping[str, FingerprintEntry], other: Mapping[str, FingerprintEntry]) -> Iterator[str]:
    """What was made this way in one version, and is not in the other."""
    return (name for name, entry in one.items() if entry.get("by") == by != other.get(name, {}).get("by"))


def _news(was: FingerprintEntry, now: FingerprintEntry) -> Iterator[str]:
    for part, what in _FIELDS.items():
        if part in was and part in now:
            yield from (f'{what} "{name}"' for name in now[part] if name not in was[part])
            yield from (f'{what} "{name}" is gone' for name in was[part] if name not in now[part])
