"""The records, and how one is made from others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Device:
    site: str
    limit: float
    """Celsius above which an alert is sent."""


@dataclass
class Reading:
    """A reading as it arrives; a broken sensor sends no celsius."""

    sensor: str
    at: int
    celsius: float | None = None


@dataclass
class Known:
    """A reading of a known device."""

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
    """None if it is not too hot, or if maintenance explains it."""
    if work is not None or reading.celsius <= reading.limit:
        return None
    return Alert(reading.sensor, reading.site, reading.celsius, reading.at)
