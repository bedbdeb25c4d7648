"""The tables that Spark computes from the sensors' topics: `streamtopo rollup apps.sensors`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apps.sensors.models import Reading
from streamtopo.spark import rollup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MINUTES_OF_A_DAY = 24 * 60


def located(readings: DataFrame, devices: DataFrame) -> DataFrame:
    """The valid readings of known devices, with their sites, as in the topology."""
    sites = devices.selectExpr("key AS device", "value.site AS site")
    found = readings.where("celsius IS NOT NULL").join(sites, readings.key == sites.device)
    return found.drop("key", "device")


@rollup("site-percentiles", every="1 hour", keys=["site"], topic="readings", value=Reading, tables=["devices"])
def site_percentiles(readings: DataFrame, devices: DataFrame) -> DataFrame:
    """The distribution of temperatures at a site, hour by hour."""
    from pyspark.sql import functions as F

    cuts = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    columns = [F.round(F.percentile("celsius", cut), 2).alias(name) for name, cut in cuts.items()]
    return located(readings, devices).groupBy("hour", "site").agg(F.count("*").alias("readings"), *columns)


@rollup("availability", every="1 day", keys=["sensor"], topic="readings", value=Reading)
def availability(readings: DataFrame) -> DataFrame:
    """The share of the minutes of a day in which a sensor sent a valid reading."""
    from pyspark.sql import functions as F

    minutes = F.count_distinct(F.date_trunc("minute", "timestamp"))
    sound = readings.where("celsius IS NOT NULL").groupBy("day", "sensor").agg(minutes.alias("minutes"))
    return sound.withColumn("available", F.round(F.col("minutes") / MINUTES_OF_A_DAY, 4))


@rollup("active-devices", every="1 day", keys=["site"], topic="readings", value=Reading, tables=["devices"])
def active_devices(readings: DataFrame, devices: DataFrame) -> DataFrame:
    """How many devices of a site sent readings."""
    from pyspark.sql import functions as F

    return located(readings, devices).groupBy("day", "site").agg(F.count_distinct("sensor").alias("devices"))


@rollup("alerts-in-sessions", every="1 day", keys=["sensor", "at"], topic="sensor-alerts", beside=["sensor-sessions"])
def alerts_in_sessions(alerts: DataFrame, sessions: DataFrame) -> DataFrame:
    """Each alert with its session: how long the sensor had been active before, and how long it stayed active."""
    spans = sessions.selectExpr("day AS session_day", "key AS who", "start", "end", "readings")
    inside = (
        (alerts.sensor == spans.who) & alerts["at"].between(spans.start, spans.end) & (alerts.day == spans.session_day)
    )
    return alerts.join(spans, inside, "left").selectExpr(
        "day",
        "sensor",
        "at",
        "site",
        "celsius",
        "(at - start) / 1000 AS active_before",
        "(end - at) / 1000 AS active_after",
    )
