"""`broker="streamtopo://PATH"`: Faust's transport over the embedded log."""

from __future__ import annotations

from typing import Any, ClassVar

from faust.exceptions import ImproperlyConfigured
from faust.transport import base

from streamtopo.integrations.faust import consumer, producer
from streamtopo.logs import Log
from streamtopo.logs.opening import open_log


class Transport(base.Transport):
    """`streamtopo:///var/lib/log` is an absolute path, `streamtopo://./log` a relative one.

    Faust's own `aiokafka` driver is the reference for what a transport must do.
    """

    Consumer: ClassVar[Any] = consumer.Consumer
    Producer: ClassVar[Any] = producer.Producer
    default_port = 0
    driver_version = "streamtopo embedded log"

    def open_log(self) -> Log:
        if len(self.url) != 1:
            raise ImproperlyConfigured(f"a log is one place, not {len(self.url)}; give one streamtopo:// URL")
        (url,) = self.url
        path = (url.host or "") + url.path.rstrip("/")
        return open_log(f"embedded:{path}" + (f"?{url.query_string}" if url.query_string else ""))
