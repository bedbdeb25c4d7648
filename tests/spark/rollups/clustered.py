"""An application whose rollup runs on a cluster."""

from __future__ import annotations

from streamtopo import StreamsBuilder
from tests.spark.rollups.rolling import merged as merged

builder = StreamsBuilder("clustered")
builder.stream("t", value=str).to("out")
topology = builder.build()
