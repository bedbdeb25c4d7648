"""The benchmark of the peers runs: for streamtopo and the plain client, which need only the tests' broker."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.harness import DifferentResultsError
from benchmarks.peers import __main__ as command
from benchmarks.peers.contenders import AT_LEAST, EXACTLY, contenders
from benchmarks.peers.running import measured
from benchmarks.peers.server import Server
from benchmarks.peers.workloads import WORKLOADS
from streamtopo.broker import Cluster
from tests.long import long

pytestmark = pytest.mark.kafka
CONTENDERS = {one.name: one for one in contenders()}
OURS, ALONE = f"streamtopo, {EXACTLY}", f"client alone, {AT_LEAST}"


@pytest.fixture
def server(cluster: Cluster) -> Server:
    server = Server(cluster.address)
    server.empty()
    return server


@pytest.mark.parametrize(
    ("contender", "workload"),
    [
        *[pytest.param(OURS, name, marks=long) for name in ("word-count", "tumbling-count", "restore")],
        (OURS, "stream-table-join"),
        (f"streamtopo, {AT_LEAST}", "keyed-count"),
        (ALONE, "map-filter"),
        (f"client alone, {EXACTLY}", "every-update"),
    ],
)
def test_outputs_are_as_expected(server: Server, contender: str, workload: str) -> None:
    measures = measured(CONTENDERS[contender], workload, 400, server)
    assert measures[f"{WORKLOADS[workload].unit}/s"] > 0


def test_delays_are_measured(server: Server) -> None:
    measures = measured(CONTENDERS[OURS], "latency", 200, server)
    assert 0 < measures["p50 ms"] <= measures["p99 ms"]


def test_a_contender_with_wrong_counts_is_not_measured(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WORKLOADS, "keyed-count", replace(WORKLOADS["keyed-count"], expected=lambda rows: {}))
    with pytest.raises(DifferentResultsError, match="have other values than they should"):
        measured(CONTENDERS[ALONE], "keyed-count", 401, server)


def test_measurements_become_a_table_and_a_chart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = {
        (OURS, "keyed-count"): {"records/s": 300_000.0, "CPU us": 3.0},
        (f"Kafka Streams, {EXACTLY}, defaults", "keyed-count"): {"records/s": 240_000.0, "CPU us": 4.0},
        (f"Kafka Streams, {EXACTLY}, tuned", "keyed-count"): {"records/s": 200_000.0, "CPU us": 4.0},
        (OURS, "latency"): {"p50 ms": 12.0, "p99 ms": 36.0},
    }
    about = {"at": "2026-11-18T18:00:00", "commit": "abc", "machine": {"cpu": "fast", "cores": 2, "python": "3.11"}}
    lines = [about | {"contender": name, "workload": on, "seen": found} for (name, on), found in seen.items()]
    file = tmp_path / "peers.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert command.main(["--runs", "0", "--file", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "|  | keyed-count | latency |",
        "| --- | --: | --: |",
        "| streamtopo, exactly once | 300k | 12.0 / 36.0 ms |",
        "| Kafka Streams, exactly once, defaults | 240k |  |",
        "| Kafka Streams, exactly once, tuned | 200k |  |",
        "| **streamtopo to Kafka Streams, exactly once** | **1.25** |  |",
        "",
        "2026-11-18, commit abc; fast, 2 cores, Python 3.11.",
    ]
    drawn = ElementTree.parse(tmp_path / "peers.svg").getroot()
    bars = [float(bar.get("width", "")) for bar in drawn.iter("{http://www.w3.org/2000/svg}rect")]
    assert [bars[0] / bars[1], len(bars)] == [pytest.approx(1.25, rel=0.01), 4]
