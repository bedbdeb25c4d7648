"""How long after the end of a window do its results come, on Kafka?"""

from __future__ import annotations

from functools import partial

from benchmarks.experiment import Experiment, Observed, Side
from benchmarks.experiments.closing import QUESTION, SIDES
from benchmarks.places import Site
from streamtopo.broker import Cluster


def on_a_broker(side: Side, site: Site, records: int) -> Observed:
    """Run on a separate broker, with the settings of a development cluster."""
    cluster = Cluster(site.directory / "broker")
    try:
        url = f"kafka://{cluster.up(port=0)}?kafka.linger.ms=0"
        return side(site._replace(url=url), records)
    finally:
        cluster.down()


experiment = Experiment(
    "closing-on-kafka",
    f"{QUESTION}, on Kafka?",
    10_000,
    {name: partial(on_a_broker, side) for name, side in SIDES.items()},
    log="kafka:",
)
