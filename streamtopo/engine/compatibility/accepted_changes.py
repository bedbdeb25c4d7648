"""Makes the state on a log fit a topology: deletes what an accepted change makes unusable, and nothing else.

1. While no worker is running, write down the ids of the topics to delete, and that their stores are gone.
2. Delete those topics.
3. Write down that this is done. Stores that the topology still has are new then, and start empty.

A start after a kill in between finds what step 1 wrote, and continues with step 2. Rows on disks belong to a changelog
with another id then, so a worker that opens them deletes them, even if a store is added again much later. Stores
without a changelog have a number instead of the id: how often they were emptied.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace

from streamtopo.engine.compatibility.fingerprint import (
    STORE,
    TOPIC,
    Fingerprint,
    FingerprintEntry,
    TopologyChanges,
    compare,
    note_of,
)
from streamtopo.errors import LogError
from streamtopo.logs import Log, Topic
from streamtopo.logs.groups import check_no_members
from streamtopo.topology import Topology

logger = logging.getLogger("streamtopo")

_PATIENCE = 60.0
"""Seconds to wait until other workers of the application have ended."""
_PAUSE = 0.1


def fitted(topology: Topology, log: Log, now: Mapping[str, FingerprintEntry], *, accept: bool) -> Fingerprint:
    """The fingerprint to keep from now on; FingerprintError if something no longer fits and that is not accepted."""
    note, deadline = note_of(topology), time.monotonic() + _PATIENCE
    while True:
        kept = Fingerprint.read(text := log.note(note))
        changes = compare(kept.entries, now)
        if not kept.deleting:
            if not changes.refused:
                for line in changes.news:
                    logger.info("new since the last start: %s", line)
                return replace(kept, entries=now)
            if not accept:
                raise changes.error()
        in_use, existing = _in_use(topology, log, deadline), log.topics()
        if in_use or log.note(note) != text:
            continue  # another start may do it now, or has done it: then these topics may be the new ones
        if not kept.deleting:
            kept = _without(topology, existing, kept, changes)
            log.write_note(note, kept.text())
        _delete(log, kept.deleting)
        log.write_note(note, replace(kept, deleting={}).text())


def _in_use(topology: Topology, log: Log, deadline: float) -> bool:
    """True, after a pause, if workers are running; an error if they have been for too long."""
    state = log.group(topology.application_id)
    if state is None or not state.members:
        return False
    if time.monotonic() > deadline:
        check_no_members(topology.application_id, state.members)
    time.sleep(_PAUSE)
    return True


def _without(
    topology: Topology, existing: Mapping[str, Topic], kept: Fingerprint, changes: TopologyChanges
) -> Fingerprint:
    """The entries that still fit, and the topics of the others, to delete."""
    stores = [name.removeprefix(STORE) for name in changes.refused if name.startswith(STORE)]
    topics = {name.removeprefix(TOPIC) for name in changes.refused if name.startswith(TOPIC)}
    topics.update(map(topology.changelog_of, stores))
    for name in sorted(changes.refused):
        logger.warning(
            "deleted, because changes are accepted: the state of %s (%s)", name, "; ".join(changes.refused[name])
        )
    gone = changes.refused.keys() | {f"{TOPIC}{topic}" for topic in topics}
    return Fingerprint(
        {name: entry for name, entry in kept.entries.items() if name not in gone},
        {topic: existing[topic].id for topic in topics if topic in existing},
        dict(kept.emptied) | {store: kept.emptied.get(store, 0) + 1 for store in stores},
    )


def _delete(log: Log, topics: Mapping[str, str]) -> None:
    """Delete the topics that are still there. A topic of the same name with another id is a new one."""
    for topic, id in topics.items():
        existing = log.topics()
        if topic in existing and existing[topic].id == id:
            try:
                log.delete(topic)
            except LogError:
                if topic in log.topics():
                    raise
