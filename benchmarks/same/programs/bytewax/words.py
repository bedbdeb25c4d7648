from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSource
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow

BROKERS = ["localhost:9092"]


def count(total, word):
    total = (total or 0) + 1
    return total, total


flow = Dataflow("words")
sentences = op.input("in", flow, KafkaSource(BROKERS, ["sentences"]))
words = op.flat_map("split", sentences, lambda message: message.value.decode().split())
counted = op.stateful_map("count", op.key_on("by-word", words, lambda word: word), count)
rows = op.map("rows", counted, lambda row: KafkaSinkMessage(row[0].encode(), str(row[1]).encode()))
kop.output("out", rows, brokers=BROKERS, topic="word-counts")
