"""Apache Kafka on this machine, for development and tests: downloaded once, run without Docker, in one directory."""

from __future__ import annotations

from streamtopo.broker.cluster import Cluster, NodeState
from streamtopo.broker.directories import default_directory
from streamtopo.broker.downloads import jars
from streamtopo.broker.java import find_java

__all__ = ["Cluster", "NodeState", "default_directory", "find_java", "jars"]
