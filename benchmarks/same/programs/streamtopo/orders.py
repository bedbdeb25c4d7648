from streamtopo import StreamsBuilder

builder = StreamsBuilder("orders")
customers = builder.table("customers", key=str, value=dict, versioned="1h")
orders = builder.stream("orders", key=str, value=dict)
orders.join(customers, lambda order, customer: {**order, **customer}, grace="10s").to("enriched")
