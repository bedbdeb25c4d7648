"""Keys with a window in topics."""

from __future__ import annotations

from typing import Any

import pytest

from streamtopo import (
    StreamsBuilder,
    Windows,
    session_windowed,
    time_windowed,
)
from streamtopo.errors import SerdeError
from streamtopo.partitioning import partition_of
from streamtopo.testing import Driver
from tests.windows.counting import counting, send


@pytest.mark.parametrize(
    ("windows", "key"), [(Windows.tumbling(10), time_windowed(str, 10)), (Windows.session(10), session_windowed(str))]
)
def test_windowed_keys_are_in_the_partition_of_their_inner_key(windows: Any, key: Any) -> None:
    log = Driver(counting(windows), partitions=5)
    for name in "abcdefgh":
        send(log, (name, 20))
    for record in log.records("out"):
        assert record.partition == partition_of(record.key.key.encode(), 5)
    builder = StreamsBuilder("reader")
    builder.stream("out", key=key, value=int).map(lambda window, total: (window.key, window.start), key=str).to(
        "starts"
    )
    reader = Driver(builder.build(), log=log.log, partitions=5)
    assert sorted(reader.read("starts")) == [(name, 20) for name in "abcdefgh"]


def test_a_key_without_a_window_is_refused() -> None:
    with pytest.raises(SerdeError, match="expected Windowed"):
        time_windowed(str, 10).encode("a")  # type: ignore[arg-type]
    with pytest.raises(SerdeError, match="has 8 bytes for its window, and this one 2 in all"):
        time_windowed(str, 10).decode(b"ab")
