import json
from datetime import UTC, datetime, timedelta

from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSource
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from bytewax.operators import windowing as win

BROKERS = ["localhost:9092"]
EPOCH = datetime.fromtimestamp(0, UTC)


def row(counted):
    user, (minute, count) = counted
    return KafkaSinkMessage(user.encode(), json.dumps({"start": minute * 60_000, "count": count}).encode())


def late(click):
    return KafkaSinkMessage(click[0].encode(), json.dumps(click[1][1]).encode())


flow = Dataflow("clicks")
messages = op.input("in", flow, KafkaSource(BROKERS, ["clicks"]))
clicks = op.map("json", messages, lambda message: json.loads(message.value))
clock = win.EventClock(
    lambda click: EPOCH + timedelta(milliseconds=click["ts"]), wait_for_system_duration=timedelta(seconds=10)
)
minute = win.TumblingWindower(length=timedelta(minutes=1), align_to=EPOCH)
counted = win.count_window("count", clicks, clock, minute, key=lambda click: click["user"])
kop.output("out", op.map("rows", counted.down, row), brokers=BROKERS, topic="clicks-per-minute")
kop.output("late", op.map("late-rows", counted.late, late), brokers=BROKERS, topic="late-clicks")
