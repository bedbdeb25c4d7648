"""Whether Spark can be tested here; STREAMTOPO_REQUIRE_SPARK=1 makes it a failure that it cannot."""

from __future__ import annotations

import os

import pytest

from tests.spark.conftest import MISSING


def test_spark_is_here() -> None:
    if MISSING and not os.environ.get("STREAMTOPO_REQUIRE_SPARK"):
        pytest.skip(MISSING)
    assert MISSING is None
