"""Writes a DataFrame to a topic, once for each of Spark's commits: tasks write batches, the driver appends them."""

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
from streamtopo.logs.embedded.arrow_log import ArrowLog
from streamtopo.logs.embedded.storage.batches import EncodedBatch, encode
from streamtopo.partitioning import partitions_of
from streamtopo.records import Columns, TopicPartition
from streamtopo.spark.source import columns
from streamtopo.spark.source.options import Asked
from streamtopo.wall_clock import wall_clock

ABANDONED = 86_400
"""Age in seconds at which the next commit removes a file of a killed driver."""


@dataclass
class Staged(WriterCommitMessage):
    """The result of a task: a file of encoded batches, with a description of its content."""

    file: Path
    batches: list[tuple[int, int, int, int, int]]
    """Partition, rows, oldest and newest timestamp, bytes."""


class LogWriter(DataSourceArrowWriter, DataSourceStreamWriter):
    """Writes batches and streams; the commit of a stream has a batch id."""

    def __init__(self, asked: Asked, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError('a topic is written to its end; use mode("append")')
        columns.check_written(schema)
        with closing(ArrowLog(asked.path)) as arrow_log:
            self._partitions = len(arrow_log.extents(asked.topic))
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

    def _encoded(self, batch: Any, keyless: int) -> Iterator[tuple[int, EncodedBatch]]:
        whole, given = columns.to_log(batch, wall_clock())
        usual = partitions_of(whole.keys, self._partitions, keyless)
        partitions = [own if asked is None else asked for asked, own in zip(given or usual, usual, strict=True)]
        for partition in sorted(set(partitions)):
            rows = [row for row, target in enumerate(partitions) if target == partition]
            chosen = Columns(*(column and [column[row] for row in rows] for column in whole))  # type: ignore[arg-type]
            yield from ((partition, encoded) for encoded in encode(chosen))

    # -- at the driver

    def commit(self, messages: Sequence[Any], batchId: int | None = None) -> None:
        name = self._asked.commit_id if batchId is None else self._query()
        with closing(ArrowLog(self._asked.path)) as arrow_log:
            arrow_log.append(self._appended(messages), name, self._asked.commit_number if batchId is None else batchId)
        self.abort(messages)
        for left in self._staging.glob("*"):
            if time.time() - left.stat().st_mtime > ABANDONED:
                left.unlink(missing_ok=True)

    def abort(self, messages: Sequence[Any], batchId: int | None = None) -> None:
        for staged in messages:
            if staged is not None:
                staged.file.unlink(missing_ok=True)

    def _appended(self, messages: Sequence[Staged]) -> Iterator[tuple[TopicPartition, EncodedBatch]]:
        for staged in messages:
            with staged.file.open("rb") as file:
                for partition, rows, oldest, newest, size in staged.batches:
                    target = TopicPartition(self._asked.topic, partition)
                    yield target, EncodedBatch(rows, oldest, newest, file.read(size))

    def _query(self) -> str:
        """The id of the query, which Spark keeps with its checkpoints; batch ids start from 0 in each query."""
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
