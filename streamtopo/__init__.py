"""Kafka Streams for Python: a topology DSL, exactly-once state, an embedded log or Apache Kafka."""

from streamtopo.dsl.builder import StreamsBuilder
from streamtopo.dsl.global_table import GlobalKTable
from streamtopo.dsl.grouped import KGroupedStream
from streamtopo.dsl.kstream import KStream
from streamtopo.dsl.ktable import KTable
from streamtopo.engine.worker import Worker
from streamtopo.errors import StreamtopoError
from streamtopo.processors import Processor, ProcessorContext, Record
from streamtopo.serdes import Serde
from streamtopo.stores.build import key_value_store, versioned_store
from streamtopo.timestamps import Times, Timestamp
from streamtopo.topology import Topology

__all__ = [
    "GlobalKTable",
    "KGroupedStream",
    "KStream",
    "KTable",
    "Processor",
    "ProcessorContext",
    "Record",
    "Serde",
    "StreamsBuilder",
    "StreamtopoError",
    "Times",
    "Timestamp",
    "Topology",
    "Worker",
    "key_value_store",
    "versioned_store",
]
