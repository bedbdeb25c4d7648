import faust

app = faust.App("orders", broker="kafka://localhost:9092", topic_partitions=2)
customers = app.topic("customers", key_type=str, value_serializer="json")
orders = app.topic("orders", key_type=str, value_serializer="json")
enriched = app.topic("enriched", key_type=str, value_serializer="json")
known = app.Table("known")


@app.agent(customers)
async def remember(stream):
    async for key, customer in stream.items():
        known[key] = customer


@app.agent(orders)
async def enrich(stream):
    async for key, order in stream.items():
        if key in known:
            await enriched.send(key=key, value={**order, **known[key]})
