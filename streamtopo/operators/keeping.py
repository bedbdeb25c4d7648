"""A step that keeps rows in a state, whose record cache may hold back what it forwards until the commit."""

from __future__ import annotations

from dataclasses import dataclass

from streamtopo.records import Chunk, Step
from streamtopo.stores.state import State


@dataclass(frozen=True)
class Keeping:
    step: Step
    state: State

    def __call__(self, chunk: Chunk) -> Chunk:
        return self.step(chunk)

    def flush(self) -> Chunk:
        return self.state.flush()
