"""A log for one machine and no server: SQLite in WAL mode, holding Arrow record batches."""

from __future__ import annotations

from streamtopo.logs.embedded.log import EmbeddedLog
from streamtopo.logs.embedded.member import EmbeddedMember

__all__ = ["EmbeddedLog", "EmbeddedMember"]
