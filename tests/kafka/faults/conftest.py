"""One broker for each file in this folder: a killed broker may lose data that other tests need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamtopo.broker import Cluster
from tests.kafka.brokers import running


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running() as made:
        yield made


@pytest.fixture(scope="module")
def kafka(cluster: Cluster) -> str:
    return f"kafka://{cluster.address}"
