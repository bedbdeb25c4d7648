"""Notices workers that run another topology with the same application id: they would share the records."""

from __future__ import annotations

import logging
from hashlib import sha256

from streamtopo.logs import Log
from streamtopo.topology import Topology

logger = logging.getLogger("streamtopo")


def warn_of_other_topology(topology: Topology, log: Log) -> None:
    """Each start leaves a mark of its topology. It is a warning, because a new version may replace worker by worker."""
    id = topology.application_id
    note, mark = f"{id}/topology", sha256(topology.describe().encode()).hexdigest()
    before = log.note(note)
    if before == mark:
        return
    group = log.group(id)
    if before is not None and group is not None and group.members:
        logger.warning(
            'workers with the application id "%s" are running with another topology, and each worker gets a part of '
            "the records; if this is a new version, replace all of them; if it is another application, give it another "
            'id: StreamsBuilder("another-id")',
            id,
        )
    log.write_note(note, mark)
