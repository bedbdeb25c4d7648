"""`broker="streamtopo://PATH"`: Faust's transport on the embedded log."""

from __future__ import annotations

from typing import Any, ClassVar

from faust.exceptions import ImproperlyConfigured
from faust.transport import base
from yarl import URL

from streamtopo.integrations.faust import consumer, producer
from streamtopo.logs import Log
from streamtopo.logs.opening import open_log

KAFKA_PORT = 9092


class Transport(base.Transport):
    """`streamtopo:///var/lib/log` is an absolute path, `streamtopo://./log` a relative one.

    The `aiokafka` driver of Faust shows what a transport must do.
    """

    Consumer: ClassVar[Any] = consumer.Consumer
    Producer: ClassVar[Any] = producer.Producer
    default_port = 0
    driver_version = "streamtopo embedded log"

    def open_log(self) -> Log:
        return open_log(log_of(self.url))


def log_of(broker: list[URL]) -> str:
    """The URL of the log at these brokers; several brokers of Kafka are one log."""
    scheme = broker[0].scheme
    if scheme in ("kafka", "aiokafka", "confluent"):
        return "kafka://" + ",".join(f"{url.host}:{url.port or KAFKA_PORT}" for url in broker)
    if scheme != "streamtopo":
        raise ImproperlyConfigured(f"{scheme}:// is not a log of streamtopo; give log=")
    if len(broker) != 1:
        raise ImproperlyConfigured(f"streamtopo:// needs one URL, not {len(broker)}; give only one")
    (url,) = broker
    path = (url.host or "") + url.path.rstrip("/")
    return f"embedded:{path}" + (f"?{url.query_string}" if url.query_string else "")
