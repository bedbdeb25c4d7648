"""The broker that all tests of a run share: the one of `streamtopo broker`, in a directory of its own."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamtopo.broker import Cluster, find_java
from streamtopo.errors import BrokerError


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    try:
        find_java()
    except BrokerError as error:
        if os.environ.get("STREAMTOPO_REQUIRE_KAFKA"):
            raise
        pytest.skip(str(error))
    directory = Path(tempfile.mkdtemp(prefix="streamtopo-kafka-"))
    made = Cluster(directory)
    made.up(port=0)
    yield made
    made.down()
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def kafka(cluster: Cluster) -> str:
    """The broker's url."""
    return f"kafka://{cluster.address}"
