from streamtopo import StreamsBuilder, Windows

builder = StreamsBuilder("clicks")
clicks = builder.stream("clicks", value=dict).group_by(lambda _, click: click["user"], key=str)
minute = Windows.tumbling("1m", grace="10s")
counts = clicks.windowed_by(minute, emit="on_close", on_late="late-clicks").count(name="per-minute")
rows = counts.to_stream().map(lambda w, count: (w.key, {"start": w.start, "count": count}), key=str, value=dict)
rows.to("clicks-per-minute")
