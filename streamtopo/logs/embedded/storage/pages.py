"""Several stored batches as one, decoded column by column: small batches take no longer per record than large ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from streamtopo.logs.embedded.storage.batches import BatchView, join_views
from streamtopo.records import Columns, join_offsets


class PageView:
    def __init__(self, views: Sequence[BatchView]) -> None:
        self._views = views
        self.offsets = join_offsets([view.offsets for view in views])

    def timestamps(self) -> list[int]:
        return list(chain.from_iterable(view.timestamps() for view in self._views))

    def keys(self) -> list[bytes | None]:
        return list(chain.from_iterable(view.keys() for view in self._views))

    def columns(self) -> Columns:
        return join_views(self._views)[0]

    def headers(self, names: Collection[str]) -> dict[str, list[bytes | None]]:
        if not any(view.headed for view in self._views):
            return {}
        column = pa.chunked_array([view.header_column() for view in self._views])
        rows, pairs = pc.list_parent_indices(column), pc.list_flatten(column)
        encoded = pc.struct_field(pairs, "key").dictionary_encode().combine_chunks()
        values, found = pc.struct_field(pairs, "value"), {}
        for number, name in enumerate(encoded.dictionary.to_pylist()):
            if name in names:
                chosen = pc.equal(encoded.indices, number)
                found[name] = self._spread(rows.filter(chosen), values.filter(chosen))
        return found

    def _spread(self, rows: Any, values: Any) -> list[bytes | None]:
        """A value for each record: the last one of those at its row, or None."""
        places, column = rows.to_pylist(), values.to_pylist()
        if places == list(range(len(self.offsets))):
            return column  # type: ignore[no-any-return]
        last = dict(zip(places, column, strict=True))
        return [last.get(row) for row in range(len(self.offsets))]
