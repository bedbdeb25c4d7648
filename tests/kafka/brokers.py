"""The broker shared by all tests of a run: that of `streamtopo broker`, in its own directory."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from streamtopo.broker import Cluster, find_java
from streamtopo.errors import BrokerError
from streamtopo.logs.kafka import KafkaLog
from streamtopo.logs.opening import open_log

_SESSION = 60.0


@contextmanager
def running() -> Iterator[Cluster]:
    """Run a separate broker."""
    try:
        find_java()
    except BrokerError as error:
        if os.environ.get("STREAMTOPO_REQUIRE_KAFKA"):
            raise
        pytest.skip(str(error))
    directory = Path(tempfile.mkdtemp(prefix="streamtopo-kafka-"))
    made = Cluster(directory)
    made.up(port=0, config={"log.retention.ms": "-1"})  # records of the tests have old timestamps
    yield made
    made.down()
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with running() as made:
        yield made


def emptied(url: str) -> KafkaLog:
    """Return the log, without the topics and groups of earlier tests."""
    log = open_log(url)
    assert isinstance(log, KafkaLog)
    admin = AdminClient({"bootstrap.servers": url.removeprefix("kafka://").partition("?")[0]})
    deadline = time.monotonic() + _SESSION
    while groups := [group.group_id for group in admin.list_consumer_groups().result().valid]:
        for future in admin.delete_consumer_groups(groups).values():
            with suppress(KafkaException):  # members that were killed stay in it until their session ends
                future.result()
        assert time.monotonic() < deadline, groups
    for topic in log.topics():
        log.delete(topic)
    return log


def configured(kafka: str, topic: str, **config: str) -> None:
    """Change the configuration of a topic."""
    admin = AdminClient({"bootstrap.servers": kafka.removeprefix("kafka://")})
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in config.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result()


@pytest.fixture(scope="session")
def kafka(cluster: Cluster) -> str:
    """Return the broker's URL."""
    return f"kafka://{cluster.address}"
