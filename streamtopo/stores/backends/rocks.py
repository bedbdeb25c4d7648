"""A store in RocksDB: one database for all stores of a task, each commit one batch with its positions inside."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakSet

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from streamtopo.errors import StoreError
from streamtopo.records import has_null
from streamtopo.stores import Changes
from streamtopo.stores.backends.directory import TaskDirectory, trouble
from streamtopo.stores.trust import Stamp
from streamtopo.wall_clock import wall_clock

logger = logging.getLogger("streamtopo")

_MB = 1 << 20
_FIRST_KEY = b"\1"
"""Names of stores never start with a zero byte; the keys of the positions do."""
_PAGE_ROWS = 1000
_FIRST_PAGE_ROWS = 32
"""Fewer at first, because many callers only need the first row or two."""
_PAGE_BYTES = _MB
_PATIENCE = 60.0
_HARDLY_FREE = 32 * _MB


class MemoryBudget:
    """Shared by all stores of a process: about this many bytes of cached blocks and of rows not flushed yet."""

    def __init__(self, size: int = 256 * _MB) -> None:
        self.size = size
        self._cache = Cache(size)
        # Charged to the cache: rows waiting to be flushed push blocks out, so that both together keep the budget.
        self._buffers = WriteBufferManager.new_write_buffer_manager_with_cache(size // 4, False, self._cache)

    @property
    def used(self) -> int:
        return self._cache.get_usage()

    def options(self) -> Options:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_manager(self._buffers)
        # A buffer that fits the processor's cache takes three times as many rows a second as one of 64 MB.
        options.set_write_buffer_size(max(64 << 10, min(8 * _MB, self.size // 16)))
        options.set_compression_type(DBCompressionType.lz4())
        options.set_block_based_table_factory(self._table())
        options.set_max_background_jobs(2)
        options.set_manifest_preallocation_size(64 << 10)
        options.set_keep_log_file_num(2)
        options.set_max_log_file_size(_MB)
        options.set_stats_dump_period_sec(0)
        return options

    def _table(self) -> BlockBasedOptions:
        table = BlockBasedOptions()
        table.set_block_cache(self._cache)
        table.set_format_version(5)
        table.set_bloom_filter(10, False)
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        return table


class Snapshot:
    """The rows as they were at one moment, for any thread; closing the store ends it.

    It is one iterator: what rocksdict 0.3.29 calls a snapshot does not hold for its own iterators.
    """

    def __init__(self, iterator: RdictIter, path: Path) -> None:
        self._iterator: RdictIter | None = iterator
        self._path = path
        self._lock = threading.Lock()

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._lock:
            iterator = self._opened()
            return [_at(iterator, key) for key in keys]

    def scan(self, start: bytes, stop: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        start = max(start, _FIRST_KEY)
        more, most = start < stop, _FIRST_PAGE_ROWS
        while more:
            rows, more = self._page(start, stop, reverse, most)
            most = _PAGE_ROWS
            yield from rows
            if more and reverse:
                stop = rows[-1][0]
            elif more:
                start = rows[-1][0] + b"\0"

    def close(self) -> None:
        with self._lock:
            self._iterator = None

    def _page(self, start: bytes, stop: bytes, reverse: bool, most: int) -> tuple[list[tuple[bytes, bytes]], bool]:
        """The next rows, `most` of them, and whether there may be more: between pages others may use the iterator."""
        with self._lock:
            iterator = self._opened()
            rows, more = (_backward if reverse else _forward)(iterator, start, stop, most)
            if not more:
                with explained(self._path):
                    iterator.status()
            return rows, more

    def _opened(self) -> RdictIter:
        if self._iterator is None:
            raise StoreError(f'the store in "{self._path}" was closed while it was being read; ask its new owner')
        return self._iterator


class RocksStore:
    """RocksDB without a write-ahead log, because the changelog is one. Closing flushes; a kill loses unflushed rows.

    A kill loses these rows together with the position that includes them, so restoring brings both back.
    """

    def __init__(
        self,
        path: str | Path,
        memory: MemoryBudget,
        *,
        now: Callable[[], int] = wall_clock,
        closed: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = Path(path)
        self._memory = memory
        self._now = now
        self._closed = closed
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[method-assign, assignment]
        self._unlogged.no_slowdown = True
        self._origins: dict[str, Stamp] = {}
        self._readers: WeakSet[Snapshot] = WeakSet()
        self._lock = threading.Lock()
        self._calls = 0
        """Number of calls that are reading now, in any thread."""
        self._call_ended = threading.Condition(self._lock)
        options = memory.options()
        with explained(self.path):
            # The family is named, because otherwise it gets options and a cache of its own at the second opening.
            self._rows: Rdict | None = Rdict(str(self.path), options, {"default": options})

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        with explained(self.path), self._reading() as rows:
            return rows.get(list(keys))  # type: ignore[return-value]

    def scan(self, start: bytes, stop: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """The rows with start <= key < stop as they were when the scan began."""
        return self._reader(stop).scan(start, stop, reverse=reverse)

    def scan_many(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        with self.snapshot() as reader:
            return [list(reader.scan(start, stop)) for start, stop in ranges]

    def write(self, changes: Changes, positions: Mapping[str, int], *, as_of: int | None = None) -> None:
        """Write, atomically, all changes, and for each named store its changelog offset after them."""
        written_at = self._now() if as_of is None else as_of
        stamps = {
            _position_key(store): self._origin(store)._replace(offset=offset, written_at=written_at).encoded()
            for store, offset in positions.items()
        }
        self._write(lambda: _batch(changes, stamps))

    def position(self, store: str) -> int | None:
        """The changelog offset that this store's rows include; None for a store that was never written."""
        stamp = self.stamp(store)
        return None if stamp is None else stamp.offset

    def stamp(self, store: str) -> Stamp | None:
        """The position, with what is needed to decide whether it is still valid."""
        (data,) = self.get_many([_position_key(store)])
        return None if data is None else Stamp.decoded(data)

    def belongs_to(self, store: str, log: str, changelog: str, layout: str = "") -> None:
        """From now on this store's positions are offsets in this changelog, by the ids of the log and the topic."""
        self._origins[store] = Stamp(0, log, changelog, 0, layout)

    def delete_range(self, start: bytes, stop: bytes, *, forget: str | None = None) -> None:
        """Delete the rows with start <= key < stop, and in the same step the position of the store `forget`."""
        start = max(start, _FIRST_KEY)

        def batch() -> WriteBatch:
            batch = WriteBatch(raw_mode=True)
            if start < stop:
                batch.delete_range(start, stop)
            if forget is not None:
                batch.delete(_position_key(forget))
            return batch

        self._write(batch)

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The rows committed now, for readers in other threads. It keeps old files on the disk, so close it soon."""
        reader = self._reader(None)
        try:
            yield reader
        finally:
            reader.close()

    def close(self) -> None:
        """Flush and close. Rows that cannot be flushed are restored from the changelog later."""
        with self._lock:
            rows, self._rows = self._rows, None
            readers, self._readers = list(self._readers), WeakSet()
            self._call_ended.wait_for(lambda: self._calls == 0)
        if rows is None:
            return
        for reader in readers:  # an open iterator would keep the database, and RocksDB's lock, open
            reader.close()
        try:
            # On a full disk, the last flush would wait for compactions that never happen. Saving the options fails, but
            # the database must still be closed here: otherwise it is closed when the object is freed, and that
            # blocks the interpreter while it waits.
            with suppress(Exception):
                rows.set_options({"disable_auto_compactions": "true"})
            rows.close()
        except Exception as error:
            logger.warning("%s; what was not flushed will be restored from the changelog", trouble(self.path, error))
        finally:
            del rows
            self._closed()

    def _write(self, batch: Callable[[], WriteBatch]) -> None:
        """Wait for flushing here: RocksDB would block the interpreter while it waits, and on a full disk forever."""
        patience = time.monotonic() + _PATIENCE
        with explained(self.path):
            while True:
                try:
                    return self._opened().write(batch(), self._unlogged)
                except Exception as error:
                    if "Write stall" not in str(error):
                        raise
                    self._check_flushing(time.monotonic() > patience)
                time.sleep(0.001)

    def _check_flushing(self, too_long: bool) -> None:
        failed = bool(self._opened().property_int_value("rocksdb.background-errors"))
        if failed and shutil.disk_usage(self.path).free < _HARDLY_FREE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if too_long:
            raise StoreError(f'the state in "{self.path}" cannot be flushed to the disk; its file LOG says why')

    @contextmanager
    def _reading(self) -> Iterator[Rdict]:
        """The rows for one call; `close` waits for its end, because rocksdict refuses to close what a call uses."""
        with self._lock:
            rows = self._opened()
            self._calls += 1
        try:
            yield rows
        finally:
            with self._lock:
                self._calls -= 1
                self._call_ended.notify_all()

    def _reader(self, stop: bytes | None) -> Snapshot:
        options = ReadOptions()
        if stop:
            options.set_iterate_upper_bound(stop)
        with self._lock, explained(self.path):
            reader = Snapshot(self._opened().iter(options), self.path)
            self._readers.add(reader)
            return reader

    def _origin(self, store: str) -> Stamp:
        if store not in self._origins:
            self._origins[store] = self.stamp(store) or Stamp(0, "", "", 0)
        return self._origins[store]

    def _opened(self) -> Rdict:
        if self._rows is None:
            raise StoreError(f'the store in "{self.path}" is closed')
        return self._rows


def open_rocks(directory: TaskDirectory, memory: MemoryBudget) -> RocksStore:
    """The store of a task directory; closing it releases the directory's lock."""
    try:
        return RocksStore(directory.rows, memory, closed=directory.release)
    except BaseException:
        directory.release()
        raise


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Replace the plain exceptions of rocksdict, which have RocksDB's text, by ours."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        raise trouble(path, error) from error


def _batch(changes: Changes, stamps: Mapping[bytes, bytes]) -> WriteBatch:
    batch = WriteBatch(raw_mode=True)
    deleted: list[bytes] = []
    if has_null(changes.values()):
        deleted = [key for key, value in changes.items() if value is None]
        changes = {key: value for key, value in changes.items() if value is not None}
    keys = sorted(changes)  # RocksDB writes sorted rows twice as fast
    deque(map(batch.delete, deleted), maxlen=0)
    deque(map(batch.put, keys, map(changes.__getitem__, keys)), maxlen=0)
    deque(map(batch.put, stamps.keys(), stamps.values()), maxlen=0)
    return batch


def _position_key(store: str) -> bytes:
    return b"\0position\0" + store.encode()


def _at(iterator: RdictIter, key: bytes) -> bytes | None:
    iterator.seek(key)
    return iterator.value() if iterator.key() == key else None


def _forward(iterator: RdictIter, start: bytes, stop: bytes, most: int) -> tuple[list[tuple[bytes, bytes]], bool]:
    rows: list[tuple[bytes, bytes]] = []
    size = 0
    iterator.seek(start)
    while (key := iterator.key()) is not None and key < stop:
        if len(rows) == most or size > _PAGE_BYTES:
            return rows, True
        rows.append((key, value := iterator.value()))
        size += len(value)
        iterator.next()
    return rows, False


def _backward(iterator: RdictIter, start: bytes, stop: bytes, most: int) -> tuple[list[tuple[bytes, bytes]], bool]:
    rows: list[tuple[bytes, bytes]] = []
    size = 0
    iterator.seek_for_prev(stop)
    if iterator.key() == stop:
        iterator.prev()
    while (key := iterator.key()) is not None and key >= start:
        if len(rows) == most or size > _PAGE_BYTES:
            return rows, True
        rows.append((key, value := iterator.value()))
        size += len(value)
        iterator.prev()
    return rows, False
