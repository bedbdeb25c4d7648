"""The stores, tasks and topology of a running app over HTTP: one ASGI application, to be mounted or served alone."""

from __future__ import annotations

from streamtopo.errors import ConfigError
from streamtopo.extras import missing

try:
    import starlette  # noqa: F401 - to say what is missing where it is
except ModuleNotFoundError as error:
    if error.name != "starlette":
        raise
    raise ConfigError(missing("streamtopo.web", "web")) from error

from streamtopo.web.application import REFUSALS, application
from streamtopo.web.dependency import hosted

__all__ = ["REFUSALS", "application", "hosted"]
