"""A step that keeps rows in a store, whose record cache may hold back what it forwards until the commit."""

from __future__ import annotations

from streamtopo.records import Chunk, ChunkFunction
from streamtopo.steps import Step
from streamtopo.stores.rows.state import State


class Keeping(Step):
    rows: State

    def __init__(self, function: ChunkFunction, rows: State, *, leaves_out: bool = False) -> None:
        self._function = function
        self.rows = rows
        self.leaves_out = leaves_out

    def process(self, chunk: Chunk) -> Chunk:
        return self._function(chunk)

    def before_commit(self) -> Chunk:
        return self.rows.flush()
