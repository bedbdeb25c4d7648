"""A log for one machine, without a server: Arrow record batches in SQLite, in WAL mode."""

from __future__ import annotations

from streamtopo.logs.embedded.group.member import EmbeddedMember
from streamtopo.logs.embedded.log import EmbeddedLog

__all__ = ["EmbeddedLog", "EmbeddedMember"]
