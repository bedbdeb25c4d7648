"""Profiles for the property tests: each run is like the last; `--hypothesis-profile nightly` looks elsewhere."""

import pytest
from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("default", max_examples=60, derandomize=True, deadline=None, suppress_health_check=_SLOW)
settings.register_profile("nightly", max_examples=2000, deadline=None, suppress_health_check=_SLOW)
settings.load_profile("default")
pytest.register_assert_rewrite("tests.kafka.brokers")
pytest_plugins = ["tests.kafka.brokers"]
