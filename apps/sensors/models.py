"""What the records are, and how one is made of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Device:
    site: str
    limit: float
    """Celsius above which somebody should know."""


@dataclass
class Known:
    """A reading of a device that is known."""

    sensor: str
    site: str
    limit: float
    celsius: float
    at: int


@dataclass
class Average:
    start: int
    end: int
    celsius: float


@dataclass
class Session:
    start: int
    end: int
    readings: int


@dataclass
class Alert:
    sensor: str
    site: str
    celsius: float
    at: int


def known(reading: dict[str, Any], device: Device) -> Known:
    return Known(reading["sensor"], device.site, device.limit, reading["celsius"], reading["at"])


def alert(reading: Known, work: object | None) -> Alert | None:
    """None where it is not too hot, or that is explained."""
    if work is not None or reading.celsius <= reading.limit:
        return None
    return Alert(reading.sensor, reading.site, reading.celsius, reading.at)
