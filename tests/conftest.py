"""Profiles for the property tests: each run is like the last; `--hypothesis-profile nightly` looks elsewhere."""

import signal

import pytest
from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("default", max_examples=60, derandomize=True, deadline=None, suppress_health_check=_SLOW)
settings.register_profile("nightly", max_examples=2000, deadline=None, suppress_health_check=_SLOW)
settings.load_profile("default")
pytest.register_assert_rewrite("tests.kafka.brokers")
pytest_plugins = ["tests.kafka.brokers"]

signal.signal(signal.SIGINT, signal.default_int_handler)
"""What a shell runs in the background ignores it, and so would all that the tests start."""
