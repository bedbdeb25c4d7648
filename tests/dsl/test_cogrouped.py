"""Streams that are aggregated into one table."""

from __future__ import annotations

import pytest

from streamtopo import (
    StreamsBuilder,
)
from streamtopo.errors import TopologyError
from tests.windows.counting import grouped


def test_streams_with_keys_of_different_types_share_no_row() -> None:
    builder = StreamsBuilder("cogroup")
    numbers = builder.stream("numbers", key=int, value=str).group_by_key()
    with pytest.raises(TopologyError, match="equal keys would not meet"):
        grouped(builder).cogroup(lambda key, value, row: row).cogroup(numbers, lambda key, value, row: row)
