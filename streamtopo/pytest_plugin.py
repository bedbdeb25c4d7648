"""A pytest plugin: the fixture `driver`, which makes drivers and closes them, and short tracebacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from streamtopo.engine.loading import Described
    from streamtopo.testing import Driver


def pytest_configure(config: pytest.Config) -> None:
    """With --full-trace, reports have all frames."""
    if config.getoption("fulltrace"):
        logging.getLogger("streamtopo").setLevel(logging.DEBUG)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[Any]) -> None:
    """Reports show errors of streamtopo without its frames; the next plugin makes the report."""
    if call.excinfo is None or not type(call.excinfo.value).__module__.startswith("streamtopo."):
        return
    from streamtopo.engine.tracebacks import without_engine

    call.excinfo = pytest.ExceptionInfo.from_exception(without_engine(call.excinfo.value))


@pytest.fixture
def driver() -> Iterator[Callable[..., Driver]]:
    """`driver(topology, partitions=2)` is a `streamtopo.testing.Driver` with these options."""
    from streamtopo.testing import Driver

    made: list[Driver] = []

    def make(topology: Described | str, **options: Any) -> Driver:
        made.append(Driver(topology, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
