"""The stores, tasks and topology of a running app over HTTP, as an ASGI application to mount or to serve alone."""

from __future__ import annotations

from streamtopo.errors import ConfigError
from streamtopo.settings.extras import missing

try:
    import starlette  # noqa: F401 - for a clear error if it is missing
except ModuleNotFoundError as error:
    if error.name != "starlette":
        raise
    raise ConfigError(missing("streamtopo.web", "web")) from error

from streamtopo.web.application import REFUSALS, application
from streamtopo.web.dependency import hosted

__all__ = ["REFUSALS", "application", "hosted"]
