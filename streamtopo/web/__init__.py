"""The stores, tasks and topology of a running app over HTTP: one ASGI application, to be mounted or served alone."""

from __future__ import annotations

from streamtopo.web.application import REFUSALS, application
from streamtopo.web.dependency import hosted

__all__ = ["REFUSALS", "application", "hosted"]
