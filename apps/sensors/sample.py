"""Endless sample input: readings of 40 sensors at four sites, always the same for the same start time."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from typing import Any

from apps.sensors.models import Device

Entry = tuple[str, str, Any]

SITES = {"harbour": 30.0, "hill": 24.0, "mill": 38.0, "station": 33.0}
SENSORS = [f"{site}-{number}" for site in SITES for number in range(10)]
_STEP = 25
"""Milliseconds of event time between two readings: forty sensors, each about once a second."""


def day(begin: int | None = None) -> Iterator[Entry]:
    """`start` is in milliseconds; by default it is now."""
    dice = random.Random(1)
    for sensor in SENSORS:
        site = sensor.partition("-")[0]
        yield "devices", sensor, Device(site, SITES[site])
    now = time.time_ns() // 1_000_000 if begin is None else begin
    while True:
        now += _STEP
        yield from _moment(dice, now)


def _moment(dice: random.Random, now: int) -> Iterator[Entry]:
    """One reading: out of order by up to five seconds, one in 500 a minute late, one in 300 broken."""
    sensor = dice.choice(SENSORS)
    if hash_of(sensor, now // 120_000) % 7 == 0:
        return  # silent for two minutes: a session ends
    at = now - dice.randrange(5_000) - (60_000 if dice.random() < 0.002 else 0)
    reading: dict[str, Any] = {"sensor": sensor, "celsius": _celsius(sensor, at, dice), "at": at}
    if dice.random() < 1 / 300:
        reading["celsius"] = None
    if dice.random() < 1 / 400:
        yield "maintenance", sensor, {"at": at, "who": dice.choice(["Ada", "Grace", "Radia"])}
    yield "readings", sensor, reading


def _celsius(sensor: str, at: int, dice: random.Random) -> float:
    """A daily wave around the site's usual temperature, with a peak now and then."""
    usual = SITES[sensor.partition("-")[0]] - 8
    wave = 4 * math.sin(at / 86_400_000 * math.tau)
    peak = 12 if hash_of(sensor, at // 30_000) % 40 == 0 else 0
    return round(usual + wave + peak + dice.gauss(0, 0.8), 2)


def hash_of(sensor: str, number: int) -> int:
    """A stable hash: Python's own hash of text differs from run to run."""
    return random.Random(f"{sensor} {number}").randrange(1 << 30)
