import faust

app = faust.App("clicks", broker="kafka://localhost:9092", topic_partitions=2)
clicks = app.topic("clicks", value_serializer="json")
per_minute = app.topic("clicks-per-minute", key_type=str, value_serializer="json")
table = app.Table("per-minute", default=int).tumbling(60, expires=3600)
counts = table.relative_to(lambda event: event.value["ts"] / 1000)


@app.agent(clicks)
async def count(stream):
    async for event in stream.group_by(lambda click: click["user"], name="user").events():
        user = event.value["user"]
        counts[user] += 1
        start = event.value["ts"] // 60_000 * 60_000
        await per_minute.send(key=user, value={"start": start, "count": counts[user].value(event)})
