"""The table of a rollup: Parquet files, and one manifest, replaced atomically, that lists the files that count."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from streamtopo.errors import StreamtopoError

MANIFEST, LOCK = "_manifest.json", "_lock"
FOLDER = "_bucket"
"""The column with the number of the bucket in files; the rollup may have a column `bucket` of its own."""


@dataclass(frozen=True)
class Bucket:
    files: list[str]
    first: dict[str, int]
    """For each partition, the first offset that counts here: where to start to compute it again."""


@dataclass(frozen=True)
class Manifest:
    definition: dict[str, Any]
    log: str
    topics: dict[str, int | str]
    """The ids of the topics, by name."""
    columns: str = ""
    commit: int = 0
    offsets: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each partition ("readings/0"), the offsets that all commits together have read, without the end."""
    latest: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The same for the last commit."""
    buckets: dict[str, Bucket] = field(default_factory=dict)
    """By number, as text for JSON."""
    changed: list[str] = field(default_factory=list)
    """The buckets that the last commit computed."""
    replaced: list[str] = field(default_factory=list)
    """Their previous files, which are kept until the next commit."""
    batch: int = -1
    """The last batch of a streaming query that is in the table."""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """A different id if the table was removed and computed again."""

    def bucket(self, number: int) -> Bucket:
        return self.buckets.get(str(number), Bucket([], {}))


class Table:
    """The directory of one rollup. Files that the manifest does not name, such as those in `run=7-…/`, do not count."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @contextmanager
    def locked(self) -> Iterator[None]:
        """A lock that the kernel releases when the process dies."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / LOCK).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StreamtopoError(
                    f'another process is writing "{self.directory}"; run this when that is done, or give another --out'
                ) from None
            yield

    def manifest(self) -> Manifest | None:
        try:
            text = (self.directory / MANIFEST).read_text()
        except FileNotFoundError:
            return None
        try:
            raw = json.loads(text)
            buckets = {number: Bucket(**bucket) for number, bucket in raw.pop("buckets").items()}
            for name in ("offsets", "latest"):
                raw[name] = {source: tuple(span) for source, span in raw[name].items()}
            return Manifest(**raw, buckets=buckets)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StreamtopoError(f'"{self.directory / MANIFEST}" cannot be read: {error}') from error

    def write(self, manifest: Manifest) -> None:
        """From now on the new files count, and no others, even after a power failure."""
        for run in self.directory.glob(f"run={manifest.commit}-*"):
            for path in (*run.rglob("*"), run):
                _sync(path)
        new = self.directory / f"{MANIFEST}.new"
        new.write_text(json.dumps(asdict(manifest), indent=1))
        _sync(new)
        new.rename(self.directory / MANIFEST)
        _sync(self.directory)

    def sweep(self, manifest: Manifest | None) -> None:
        """Remove files that do not count: those that the last commit replaced, and those of a killed run."""
        kept = set() if manifest is None else files(manifest)
        for run in self.directory.glob("run=*"):
            inside = {str(file.relative_to(self.directory)): file for file in run.rglob("*.parquet")}
            for name in inside.keys() - kept:
                inside[name].unlink(missing_ok=True)
            if not inside.keys() & kept:
                shutil.rmtree(run, ignore_errors=True)

    def written(self, run: str) -> Mapping[str, list[str]]:
        """The files of a run, by the number of the bucket."""
        found: dict[str, list[str]] = {}
        for file in sorted((self.directory / run).glob(f"{FOLDER}=*/*.parquet")):
            number = file.parent.name.partition("=")[2]
            found.setdefault(number, []).append(str(file.relative_to(self.directory)))
        return found

    def size(self, manifest: Manifest) -> int:
        return sum((self.directory / file).stat().st_size for file in files(manifest))


def files(manifest: Manifest) -> set[str]:
    return {file for bucket in manifest.buckets.values() for file in bucket.files}


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
