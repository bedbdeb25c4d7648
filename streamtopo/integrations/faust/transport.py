"""`broker="streamtopo://PATH"`: Faust's transport over the embedded log."""

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

    Faust's own `aiokafka` driver is the reference for what a transport must do.
    """

    Consumer: ClassVar[Any] = consumer.Consumer
    Producer: ClassVar[Any] = producer.Producer
    default_port = 0
    driver_version = "streamtopo embedded log"

    def open_log(self) -> Log:
        return open_log(log_of(self.url))


def log_of(broker: list[URL]) -> str:
    """The log that a broker is; those of Kafka are one."""
    scheme = broker[0].scheme
    if scheme in ("kafka", "aiokafka", "confluent"):
        return "kafka://" + ",".join(f"{url.host}:{url.port or KAFKA_PORT}" for url in broker)
    if scheme != "streamtopo":
        raise ImproperlyConfigured(f"{scheme}:// is no log that streamtopo knows; give log=")
    if len(broker) != 1:
        raise ImproperlyConfigured(f"a log is one place, not {len(broker)}; give one streamtopo:// URL")
    (url,) = broker
    path = (url.host or "") + url.path.rstrip("/")
    return f"embedded:{path}" + (f"?{url.query_string}" if url.query_string else "")
