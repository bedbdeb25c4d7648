"""Setup for all tests: profiles of the property tests, short-lived JVMs, and which tests share a process."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import jvms, parallel

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("default", max_examples=60, derandomize=True, deadline=None, suppress_health_check=_SLOW)
"""Each run uses the same examples; `--hypothesis-profile nightly` tries others."""
settings.register_profile("nightly", max_examples=2000, deadline=None, suppress_health_check=_SLOW)
settings.load_profile("default")
pytest.register_assert_rewrite("tests.kafka.brokers")
pytest_plugins = ["tests.kafka.brokers"]

signal.signal(signal.SIGINT, signal.default_int_handler)
"""Restore SIGINT: a shell ignores it in background jobs, and all processes started by the tests would too."""

jvms.start_quickly()


@pytest.fixture(autouse=True)
def unload(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The import path is restored, and modules that a test has written are unloaded: others may use their names."""
    before, path, written = set(sys.modules), list(sys.path), tmp_path_factory.getbasetemp()
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        module = sys.modules[name]
        places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
        if any(place is not None and Path(place).is_relative_to(written) for place in places):
            del sys.modules[name]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return parallel.processes()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return parallel.scheduler(config, log)
