"""Spark over the topics: a data source for the embedded log, and what is computed from it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamtopo.errors import StreamtopoError
from streamtopo.extras import missing
from streamtopo.spark.declaring import expected, rollup, view

if TYPE_CHECKING:
    from streamtopo.spark.outputs import read_rollup
    from streamtopo.spark.source import register
    from streamtopo.spark.typed import read_topic

__all__ = ["expected", "read_rollup", "read_topic", "register", "rollup", "view"]

# Loaded when they are asked for: an application that declares rollups runs in workers that have no Spark.
_NEED_SPARK = {"read_rollup": "outputs", "read_topic": "typed", "register": "source"}


def __getattr__(name: str) -> Any:
    if name not in _NEED_SPARK:
        raise AttributeError(name)
    try:
        return getattr(import_module(f"{__name__}.{_NEED_SPARK[name]}"), name)
    except ModuleNotFoundError as error:
        raise StreamtopoError(missing(f"{__name__}.{name}", "spark")) from error
