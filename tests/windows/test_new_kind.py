"""A new kind of windows needs one class only."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from streamtopo import StreamsBuilder, Windowed, until_window_closes
from streamtopo.testing import Driver
from streamtopo.windows import AlignedWindows, Placed

HOUR = 3_600_000


@dataclass(frozen=True)
class Shifts(AlignedWindows):
    """Two shifts a day, from 6 to 14 and from 14 to 22 o'clock; nobody works at night."""

    key_size = length = 8 * HOUR
    meaning = "shifts"

    @property
    def retention(self) -> int:
        return self.length + self.grace

    def place(self, timestamps: list[int]) -> Placed:
        hours = [time // HOUR % 24 for time in timestamps]
        places = [place for place, hour in enumerate(hours) if 6 <= hour < 22]
        return Placed(
            places,
            [timestamps[place] // HOUR * HOUR - (hours[place] - 6) % 8 * HOUR for place in places],
        )


MORNING = Windowed("ann", 6 * HOUR, 14 * HOUR)
EVENING = Windowed("ann", 14 * HOUR, 22 * HOUR)
TOMORROW = Windowed("ann", 30 * HOUR, 38 * HOUR)


def counted(emit: str, *, suppressed: bool) -> Driver:
    builder = StreamsBuilder("shifts")
    grouped = builder.stream("parts", key=str, value=str).group_by_key()
    counts = grouped.windowed_by(Shifts(0), emit=emit, on_late="late").count(name="counts")
    if suppressed:
        counts = counts.suppress(until_window_closes())
    counts.to_stream().to("counts")
    driver = Driver(builder.build())
    for hour in (1, 6, 13, 14, 21, 23, 7, 31):
        driver.send("parts", key="ann", value=str(hour), timestamp=hour * HOUR + 1)
    return driver


def test_records_are_assigned_to_shifts() -> None:
    driver = counted("on_update", suppressed=False)
    assert driver.read("counts") == [(MORNING, 1), (MORNING, 2), (EVENING, 1), (EVENING, 2), (TOMORROW, 1)]


@pytest.mark.parametrize(("emit", "suppressed"), [("on_close", False), ("on_update", True)])
def test_a_shift_closes(emit: str, suppressed: bool) -> None:
    driver = counted(emit, suppressed=suppressed)
    assert driver.read("counts") == [(MORNING, 2), (EVENING, 2)]
    assert driver.read("late") == [("ann", "7")]


def test_rows_expire_after_its_retention() -> None:
    assert list(counted("on_update", suppressed=False).store("counts").all()) == [(TOMORROW, 1)]
