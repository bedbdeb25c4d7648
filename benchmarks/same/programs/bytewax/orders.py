import json

from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSource
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow

BROKERS = ["localhost:9092"]


def keyed(message):
    return message.key.decode(), (message.topic, json.loads(message.value))


def enrich(customer, row):
    topic, value = row
    if topic == "customers":
        return value, None
    return customer, customer and {**value, **customer}


flow = Dataflow("orders")
messages = op.input("in", flow, KafkaSource(BROKERS, ["customers", "orders"]))
joined = op.stateful_map("enrich", op.map("keyed", messages, keyed), enrich)
found = op.filter_value("found", joined, lambda order: order is not None)
rows = op.map("rows", found, lambda row: KafkaSinkMessage(row[0].encode(), json.dumps(row[1]).encode()))
kop.output("out", rows, brokers=BROKERS, topic="enriched")
