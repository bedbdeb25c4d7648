"""Kafka Streams for Python: a topology DSL, exactly-once state, an embedded log or Apache Kafka."""

from streamtopo.dsl.builder import StreamsBuilder
from streamtopo.dsl.grouped import KGroupedStream
from streamtopo.dsl.grouped_table import KGroupedTable
from streamtopo.dsl.kstream import KStream
from streamtopo.dsl.ktable import KTable
from streamtopo.engine.worker import Worker
from streamtopo.errors import StreamtopoError
from streamtopo.processors import Processor, ProcessorContext, Record, ValueTransformer
from streamtopo.serdes import Serde
from streamtopo.stores.build import key_value_store
from streamtopo.topology import Topology

__all__ = [
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "Processor",
    "ProcessorContext",
    "Record",
    "Serde",
    "StreamsBuilder",
    "StreamtopoError",
    "Topology",
    "ValueTransformer",
    "Worker",
    "key_value_store",
]
