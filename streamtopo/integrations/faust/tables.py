"""Reads a Faust table as a KTable, from its changelog, to move from Faust table by table."""

from __future__ import annotations

from typing import Any

from faust.types import CodecArg

from streamtopo.dsl.builder import StreamsBuilder
from streamtopo.dsl.ktable import KTable
from streamtopo.integrations.faust.serdes import faust_serde


def faust_table(
    builder: StreamsBuilder,
    app_id: str,
    table: str,
    *,
    key: Any = None,
    value: Any = None,
    key_codec: CodecArg = "json",
    value_codec: CodecArg = "json",
    name: str | None = None,
) -> KTable:
    """This table of the Faust app with this id, which includes its version: `app.conf.id`, such as "orders-v2".

    Types and codecs are those of `app.Table(table, key_type=…, value_type=…)`; `name` names the store, as in
    `StreamsBuilder.table`. Keys of windowed tables are lists of a key and the bounds of its window, in seconds. Sets
    cannot be read: Faust writes them in another format.

    >>> builder = StreamsBuilder("moved")
    >>> faust_table(builder, "orders-v2", "totals", key=str, value=int).to_stream().to("totals")
    >>> print(builder.build().describe().splitlines()[2].strip())
    Source: KSTREAM-SOURCE-0000000001 (topics: [orders-v2-totals-changelog])
    """
    return builder.table(
        f"{app_id}-{table}-changelog",
        key=faust_serde(key, key_codec),
        value=faust_serde(value, value_codec),
        name=name,
    )
