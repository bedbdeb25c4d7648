from quixstreams import Application

app = Application("localhost:9092", consumer_group="orders", auto_offset_reset="earliest")
customers = app.dataframe(app.topic("customers"))
orders = app.dataframe(app.topic("orders"))
enriched = orders.join_asof(customers, how="inner", on_merge=lambda order, customer: {**order, **customer})
enriched.to_topic(app.topic("enriched"))
app.run()
