"""The rows of a store in all tasks of a Driver or a Cluster: a key is looked up in the task that has its partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from streamtopo.engine.worker.worker import Worker
from streamtopo.errors import StreamtopoError
from streamtopo.partitioning import partition_of
from streamtopo.stores import Kind, StoreSpec
from streamtopo.stores.views import StoreView
from streamtopo.stores.views.key_value import ReadOnlyStore
from streamtopo.topology import Topology
from streamtopo.windows import Windowed


def store_of(workers: Sequence[Worker], topology: Topology, name: str, now: Callable[[], int]) -> DriverStore:
    if name not in topology.stores:
        known = ", ".join(sorted(topology.stores)) or "none"
        hint = '; give yours a name, as in count(name="counts")' if "-STATE-STORE-" in known else ""
        raise StreamtopoError(f'there is no store "{name}"; this topology has {known}{hint}')

    def views() -> list[StoreView]:
        if name in topology.global_stores:
            return [ReadOnlyStore(worker.globals.states[name], lambda: 0) for worker in workers[:1]]
        tasks = {id: task for worker in workers for id, task in worker.tasks.items() if name in task.states}
        return [task.context.store_view(name, now) for _, task in sorted(tasks.items())]

    def commit() -> None:
        for worker in workers:
            worker.commit()

    return DriverStore(topology.stores[name], views, commit)


_OF_ALL_KEYS = (
    *("range", "reverse_range", "all", "reverse_all", "prefix_scan", "approximate_num_entries"),
    *("backward_all", "fetch_all", "backward_fetch_all", "fetch_keys_range", "backward_fetch_keys_range"),
)
_CHANGES = ("put", "put_if_absent", "delete", "remove")


class DriverStore:
    """A store, with the methods that a processor has. Rows that you put are committed immediately."""

    def __init__(self, spec: StoreSpec, views: Callable[[], list[StoreView]], commit: Callable[[], object]) -> None:
        self._spec = spec
        self._views = views
        self._commit = commit

    def __repr__(self) -> str:
        return f"DriverStore({self._spec.shown})"

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)
        if method == "put_all":
            return self._put_all
        if method in _OF_ALL_KEYS and self._spec.kind is not Kind.VERSIONED:
            return lambda *bounds: self._of_all(method, bounds)
        return lambda key, *arguments, **named: self._of_one(method, key, arguments, named)

    def _put_all(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Put each row into the task that its key belongs to."""
        for key, value in pairs:
            self._of_one("put", key, (value,), {})

    def _of_all(self, method: str, bounds: tuple[Any, ...]) -> Any:
        found = [getattr(view, method)(*bounds) for view in self._views()]
        return sum(found) if method == "approximate_num_entries" else chain.from_iterable(found)

    def _of_one(self, method: str, key: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        result = getattr(self._of(key), method)(key, *arguments, **named)
        if method in _CHANGES:
            self._commit()
        return result

    def _of(self, key: Any) -> StoreView:
        views = self._views()
        if not views:
            raise StreamtopoError(
                f'no task with store "{self._spec.name}" is running: after a failed step call run() or restart(), '
                "and a store needs a processor that is connected to it"
            )
        if key is None:
            return views[0]
        serde = self._spec.key
        (inner,) = serde.inner_keys(serde.encode_column([Windowed(key, 0, 0) if self._spec.timed else key]))
        return views[partition_of(inner, len(views))]
