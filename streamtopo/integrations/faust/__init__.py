"""streamtopo with Faust: topologies in Faust apps, Faust apps on the embedded log, Faust's models as serdes."""

from __future__ import annotations

from streamtopo.errors import ConfigError
from streamtopo.settings.extras import missing

try:
    import faust  # noqa: F401 - to raise an error with a hint if it is missing
except ModuleNotFoundError as error:
    if error.name != "faust":
        raise
    raise ConfigError(missing("streamtopo.integrations.faust", "faust")) from error

from streamtopo.integrations.faust.attachment import Attached, attach
from streamtopo.integrations.faust.codecs import SerdeCodec
from streamtopo.integrations.faust.serdes import faust_serde
from streamtopo.integrations.faust.tables import faust_table

__all__ = ["Attached", "SerdeCodec", "attach", "faust_serde", "faust_table"]
