"""Apache Kafka on this machine, for development and tests: fetched once, run without Docker, kept in a directory."""

from __future__ import annotations

from streamtopo.broker.cluster import Cluster, NodeState
from streamtopo.broker.directories import default_directory
from streamtopo.broker.fetching import jars
from streamtopo.broker.java import find_java

__all__ = ["Cluster", "NodeState", "default_directory", "find_java", "jars"]
