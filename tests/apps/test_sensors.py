"""apps.sensors: averages, sessions, alerts and the hottest sensors; late and broken readings are set aside."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from apps.sensors import topology
from apps.sensors.models import Alert, Average, Device, Session
from apps.sensors.sample import day
from streamtopo.testing import Driver, DriverRecord

SECOND, MINUTE = 1000, 60_000


@pytest.fixture
def driver() -> Driver:
    driver = Driver(topology)
    driver.send("devices", Device("hill", 24.0), key="s1", timestamp=0)
    return driver


def read(driver: Driver, at: int, celsius: Any, sensor: str = "s1") -> None:
    driver.send("readings", {"sensor": sensor, "celsius": celsius, "at": at}, key=sensor)


def test_the_average_of_a_minute_is_kept_up_to_date(driver: Driver) -> None:
    read(driver, 10 * MINUTE, 20.0)
    read(driver, 10 * MINUTE + 30 * SECOND, 21.0)
    rows = [value for _, value in driver.read("sensor-averages") if value.start == 10 * MINUTE]
    assert rows == [Average(10 * MINUTE, 11 * MINUTE, 20.0), Average(10 * MINUTE, 11 * MINUTE, 20.5)]


def test_out_of_order_readings_count_and_late_ones_are_set_aside(driver: Driver) -> None:
    read(driver, 20 * MINUTE, 20.0)
    read(driver, 20 * MINUTE - 5 * SECOND, 10.0)
    assert driver.read("sensor-late") == []
    read(driver, 18 * MINUTE, 99.0)
    assert [value.celsius for _, value in driver.read("sensor-late")] == [99.0]


def test_a_session_is_emitted_once_it_is_over(driver: Driver) -> None:
    for at in (0, 20, 45):
        read(driver, MINUTE + at * SECOND, 20.0)
    read(driver, 3 * MINUTE, 20.0)
    assert driver.read("sensor-sessions") == [("s1", Session(MINUTE, MINUTE + 45 * SECOND, 3))]


def test_heat_is_an_alert_unless_maintenance_is_reported(driver: Driver) -> None:
    driver.send("maintenance", {"at": 5 * MINUTE, "who": "Ada"}, key="s1")
    read(driver, 5 * MINUTE + 30 * SECOND, 25.0)
    read(driver, 8 * MINUTE, 26.0)
    read(driver, 8 * MINUTE + 5 * SECOND, 20.0)
    assert driver.read("sensor-alerts") == []  # a maintenance record may follow within 5 s
    read(driver, 8 * MINUTE + 5 * SECOND + 1, 20.0)
    assert driver.read("sensor-alerts") == [("s1", Alert("s1", "hill", 26.0, 8 * MINUTE))]


def test_the_hottest_sensor_of_each_site(driver: Driver) -> None:
    for minute, celsius in enumerate([20.0, 23.0, 21.0, 22.0]):
        read(driver, minute * MINUTE, celsius)
    assert driver.store("hottest").get("hill") == [[23.0, "s1"], [22.0, "s1"], [21.0, "s1"]]


def test_broken_readings_and_unknown_devices_are_set_aside(driver: Driver) -> None:
    read(driver, MINUTE, None)
    read(driver, MINUTE, 20.0, sensor="stranger")
    driver.send("readings", {"sensor": "s1", "celsius": 20.0, "at": -1}, key="s1")
    assert [value["celsius"] for _, value in driver.read("sensor-broken")] == [None]
    assert driver.read("sensor-averages") == []


def test_the_sample_has_every_kind_of_reading() -> None:
    driver = Driver(topology, partitions=2)
    driver.send_all(DriverRecord(topic, key, value, 0, -1) for topic, key, value in islice(day(), 12_000))
    for topic in ("sensor-averages", "sensor-sessions", "sensor-alerts", "sensor-broken", "sensor-late"):
        assert driver.read(topic), topic
