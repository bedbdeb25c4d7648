"""Sensors: readings joined with their devices become averages, sessions, alerts and the list of the hottest.

Readings are JSON with their own time in milliseconds, `at`; they come out of order, some late, some broken.
"""

from apps.sensors.models import Alert, Average, Device, Known, Session, alert, known
from apps.sensors.sample import day
from streamtopo import KStream, StreamsBuilder, Windowed, Windows
from streamtopo.aggregators import mean, top_k
from streamtopo.demo import Demo

builder = StreamsBuilder("sensors")

devices = builder.table("devices", key=str, value=Device, name="devices")
work = builder.stream("maintenance", key=str, value=dict, timestamp="at")
readings = builder.stream("readings", key=str, value=dict, timestamp="at")

sound, broken = readings.split(
    {"sound": lambda _, reading: isinstance(reading.get("celsius"), int | float)}, default="broken"
).values()
broken.to("sensor-broken")
located = sound.join(devices, known, value=Known)


def averages(located: KStream[str, Known]) -> None:
    """The average of each minute, every 20 seconds; readings more than 10 seconds late go to their own topic."""
    minutes = located.group_by_key().windowed_by(Windows.hopping("1m", every="20s", grace="10s"), on_late="sensor-late")
    table = minutes.aggregate(mean(lambda reading: reading.celsius), name="averages")
    table.to_stream().map(
        lambda window, celsius: (window.key, Average(window.start, window.end, round(celsius, 2))),
        key=str,
        value=Average,
    ).to("sensor-averages")


def sessions(located: KStream[str, Known]) -> None:
    """How long each sensor was active, sent once it has been silent for half a minute."""
    active = located.group_by_key().windowed_by(Windows.session("30s", grace="10s"), emit="on_close")
    active.count(name="sessions").to_stream().map(session, key=str, value=Session).to("sensor-sessions")


def session(window: Windowed[str], readings: int) -> tuple[str, Session]:
    return window.key, Session(window.start, window.end, readings)


def alerts(located: KStream[str, Known]) -> None:
    """A reading above its device's limit, unless there was maintenance in the minute before, or in the 5 s after it.

    All readings are joined, not only hot ones: they move the join's time, so that an alert is sent after those 5 s.
    """
    found = located.left_join(work, alert, before="1m", after="5s", value=Alert, name="alerts", store="alerts")
    found.filter(lambda _, alert: alert is not None).to("sensor-alerts")


def hottest(located: KStream[str, Known]) -> None:
    """The three highest readings of each site, in a store that can be queried by name."""
    by_site = located.group_by(lambda _, reading: reading.site, key=str, name="by-site")
    by_site.aggregate(top_k(3, lambda reading: [reading.celsius, reading.sensor]), name="hottest")


for part in (averages, sessions, alerts, hottest):
    part(located)
topology = builder.build()
demo = Demo(
    feed=day, shows="sensor-averages", of=lambda average: average.celsius, title="hottest minutes, °C", rate=500
)
