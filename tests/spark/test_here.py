"""Whether Spark can be tested here; with STREAMTOPO_REQUIRE_SPARK=1 it is a failure if not."""

from __future__ import annotations

import os

import pytest

from tests.spark.conftest import MISSING


def test_spark_is_installed() -> None:
    if MISSING and not os.environ.get("STREAMTOPO_REQUIRE_SPARK"):
        pytest.skip(MISSING)
    assert MISSING is None
