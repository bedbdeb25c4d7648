"""Kafka Streams for Python: a topology DSL, exactly-once state, an embedded log or Apache Kafka."""

from streamtopo.dsl.builder import StreamsBuilder
from streamtopo.dsl.grouped import KGroupedStream
from streamtopo.dsl.kstream import KStream
from streamtopo.dsl.ktable import KTable
from streamtopo.engine.worker import Worker
from streamtopo.errors import StreamtopoError
from streamtopo.hosting import host, lifespan
from streamtopo.processors import Processor, ProcessorContext, Record
from streamtopo.serdes import Serde
from streamtopo.stores.build import key_value_store
from streamtopo.topology import Topology

__all__ = [
    "KGroupedStream",
    "KStream",
    "KTable",
    "Processor",
    "ProcessorContext",
    "Record",
    "Serde",
    "StreamsBuilder",
    "StreamtopoError",
    "Topology",
    "Worker",
    "host",
    "key_value_store",
    "lifespan",
]
