from quixstreams import Application

app = Application("localhost:9092", consumer_group="clicks", auto_offset_reset="earliest")
clicks = app.topic("clicks")
per_minute = app.topic("clicks-per-minute", key_serializer="str")


def late(value, key, timestamp, late_by, start, end, name, topic, partition, offset):
    print("late:", value)
    return False


users = app.dataframe(clicks).group_by("user", key_serializer="str", key_deserializer="str")
minutes = users.tumbling_window(60_000, grace_ms=10_000, on_late=late).count().final()
minutes.apply(lambda row: {"start": row["start"], "count": row["value"]}).to_topic(per_minute)
app.run()
