"""From a DataFrame to a topic, once for each commit of Spark's: tasks leave batches, the driver appends them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from streamtopo.errors import ConfigError, LogError
from streamtopo.logs.embedded.batches import Encoded, encode
from streamtopo.logs.embedded.bulk import Bulk
from streamtopo.partitioning import partitions_of
from streamtopo.records import Columns, TopicPartition
from streamtopo.spark import columns
from streamtopo.spark.asked import Asked

ABANDONED = 86_400
"""Seconds after which a file of a killed driver is removed by the next commit."""


@dataclass
class Staged(WriterCommitMessage):
    """What a task left: encoded batches one after the other in a file, and what is in it."""

    file: Path
    batches: list[tuple[int, int, int, int, int]]
    """Partition, rows, oldest and newest timestamp, bytes."""


class LogWriter(DataSourceArrowWriter, DataSourceStreamWriter):
    """For batch and stream; Spark tells them apart by the batch id that a stream's commit has."""

    def __init__(self, asked: Asked, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError('a topic is written to its end; use mode("append")')
        columns.check_written(schema)
        with closing(Bulk(asked.path)) as bulk:
            self._partitions = len(bulk.extents(asked.topic))
        self._asked = asked
        self._staging = Path(asked.path) / "staging"

    # -- in a task

    def write(self, iterator: Iterator[Any]) -> Staged:
        self._staging.mkdir(exist_ok=True)
        file = self._staging / uuid.uuid4().hex
        context = TaskContext.get()
        keyless = context.partitionId() if context else 0
        written = []
        try:
            with file.open("wb") as out:
                for batch in iterator:
                    for partition, encoded in self._encoded(batch, keyless):
                        out.write(encoded.data)
                        written.append((partition, *encoded[:3], encoded.size))
        except BaseException:
            file.unlink()
            raise
        return Staged(file, written)

    def _encoded(self, batch: Any, keyless: int) -> Iterator[tuple[int, Encoded]]:
        whole, given = columns.to_log(batch, time.time_ns() // 1_000_000)
        usual = partitions_of(whole.keys, self._partitions, keyless)
        partitions = [own if asked is None else asked for asked, own in zip(given or usual, usual, strict=True)]
        for partition in sorted(set(partitions)):
            rows = [row for row, target in enumerate(partitions) if target == partition]
            chosen = Columns(*(column and [column[row] for row in rows] for column in whole))  # type: ignore[arg-type]
            yield from ((partition, encoded) for encoded in encode(chosen))

    # -- at the driver

    def commit(self, messages: Sequence[Any], batchId: int | None = None) -> None:
        name = self._asked.commit_id if batchId is None else self._query()
        with closing(Bulk(self._asked.path)) as bulk:
            bulk.append(self._appended(messages), name, self._asked.commit_number if batchId is None else batchId)
        self.abort(messages)
        for left in self._staging.glob("*"):
            if time.time() - left.stat().st_mtime > ABANDONED:
                left.unlink(missing_ok=True)

    def abort(self, messages: Sequence[Any], batchId: int | None = None) -> None:
        for staged in messages:
            if staged is not None:
                staged.file.unlink(missing_ok=True)

    def _appended(self, messages: Sequence[Staged]) -> Iterator[tuple[TopicPartition, Encoded]]:
        for staged in messages:
            with staged.file.open("rb") as file:
                for partition, rows, oldest, newest, size in staged.batches:
                    target = TopicPartition(self._asked.topic, partition)
                    yield target, Encoded(rows, oldest, newest, file.read(size))

    def _query(self) -> str:
        """The id that Spark gave the query, and keeps with its checkpoints: batch ids count from 0 in each."""
        if self._asked.commit_id is not None:
            return self._asked.commit_id
        if self._asked.checkpoint is None:
            raise ConfigError('a stream into a topic needs the option "checkpointLocation", to be written once')
        checkpoint = urlparse(self._asked.checkpoint)
        if checkpoint.scheme not in ("", "file"):
            raise ConfigError(
                f'checkpoints at "{self._asked.checkpoint}" cannot be read here; give the option "commitId", a name '
                "that only this query has, as long as it has these checkpoints"
            )
        try:
            return str(json.loads((Path(checkpoint.path) / "metadata").read_text())["id"])
        except (OSError, ValueError, KeyError) as error:
            raise LogError(f'the checkpoints at "{self._asked.checkpoint}" have no id: {error}') from error
