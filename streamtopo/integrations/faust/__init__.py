"""Faust on streamtopo, and streamtopo in Faust: topologies in its apps, its apps on the embedded log, its models."""

from __future__ import annotations

from streamtopo.errors import ConfigError
from streamtopo.extras import missing

try:
    import faust  # noqa: F401 - to say what is missing where it is
except ModuleNotFoundError as error:
    if error.name != "faust":
        raise
    raise ConfigError(missing("streamtopo.integrations.faust", "faust")) from error

from streamtopo.integrations.faust.attached import Attached, attach
from streamtopo.integrations.faust.codecs import SerdeCodec
from streamtopo.integrations.faust.serdes import faust_serde
from streamtopo.integrations.faust.tables import faust_table

__all__ = ["Attached", "SerdeCodec", "attach", "faust_serde", "faust_table"]
