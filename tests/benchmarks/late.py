"""The workload `backlog` for records that have their user as the key, so that they are late where they are read."""

from __future__ import annotations

from streamtopo import StreamsBuilder, Windows

builder = StreamsBuilder("late")
users = builder.stream("events", key=str, value=dict).group_by_key()
users.windowed_by(Windows.tumbling("1s", grace="5s")).count(name="counts").to_stream().to("counted")
topology = builder.build()
