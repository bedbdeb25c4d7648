"""Spark on the topics: a data source for the embedded log, and rollups that are computed from it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamtopo.errors import StreamtopoError
from streamtopo.settings.extras import missing
from streamtopo.spark.declarations import expected, rollup, view

if TYPE_CHECKING:
    from streamtopo.spark.rollups.reading import read_late, read_rollup
    from streamtopo.spark.source.source import register
    from streamtopo.spark.topics.typed import read_topic

__all__ = ["expected", "read_late", "read_rollup", "read_topic", "register", "rollup", "view"]

# Loaded on first use: an application that declares rollups also runs in workers without Spark.
_NEED_SPARK = {
    "read_late": "rollups.reading",
    "read_rollup": "rollups.reading",
    "read_topic": "topics.typed",
    "register": "source.source",
}


def __getattr__(name: str) -> Any:
    if name not in _NEED_SPARK:
        raise AttributeError(name)
    try:
        return getattr(import_module(f"{__name__}.{_NEED_SPARK[name]}"), name)
    except ModuleNotFoundError as error:
        raise StreamtopoError(missing(f"{__name__}.{name}", "spark")) from error
