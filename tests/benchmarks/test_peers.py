"""The benchmark of the peers runs: for streamtopo and the plain client, which need only the tests' broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.data import START, Row
from benchmarks.harness import DifferentResultsError
from benchmarks.peers import __main__ as command
from benchmarks.peers.contenders import AT_LEAST, EXACTLY, Job, contenders
from benchmarks.peers.exactness import exactness
from benchmarks.peers.running import measured
from benchmarks.peers.server import Server
from benchmarks.peers.workloads import WORKLOADS, user_of
from streamtopo.broker import Cluster
from tests.long import long

pytestmark = pytest.mark.kafka
CONTENDERS = {one.name: one for one in contenders()}
OURS, ALONE, FAUST = f"streamtopo, {EXACTLY}", f"client alone, {AT_LEAST}", f"Faust, {AT_LEAST}"
LOST = "exact %", "missing", "late"


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


def test_the_output_of_a_contender_without_a_group_shows_when_it_is_done(server: Server) -> None:
    contender = replace(CONTENDERS[ALONE], commits=False)
    assert measured(contender, "keyed-count", 402, server)["records/s"] > 0


def test_only_the_fields_of_its_own_are_left_out_of_what_a_contender_writes(server: Server) -> None:
    assert measured(replace(CONTENDERS[ALONE], adds=["diff"]), "map-filter", 401, server)["records/s"] > 0
    with pytest.raises(DifferentResultsError, match=r"not \{'user': .*'cents': "):
        measured(replace(CONTENDERS[ALONE], adds=["cents"]), "map-filter", 401, server)


def test_delays_are_measured(server: Server) -> None:
    measures = measured(CONTENDERS[OURS], "latency", 200, server)
    assert 0 < measures["p50 ms"] <= measures["p99 ms"]


def test_a_contender_with_wrong_counts_is_not_measured(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WORKLOADS, "keyed-count", replace(WORKLOADS["keyed-count"], expected=lambda rows: {}))
    with pytest.raises(DifferentResultsError, match="have other values than they should"):
        measured(CONTENDERS[ALONE], "keyed-count", 401, server)


# -- backlog


def test_the_truth_of_a_backlog_is_what_plain_python_counts() -> None:
    rows = list(WORKLOADS["backlog"].rows(1_000))
    assert [time for _, _, time in rows] == list(range(START, START + 100_000, 100))
    assert {key for key, _, _ in rows} == {None}
    assert len({json.loads(value)["user"] for _, value, _ in rows}) == 50
    counted: dict[bytes, int] = {}
    for place, (_, value, _) in enumerate(rows):
        window = str(json.loads(value)["user"]).encode() + (START + place // 10 * 1000).to_bytes(8, "big")
        counted[window] = counted.get(window, 0) + 1
    assert WORKLOADS["backlog"].expected(rows) == counted


def test_a_window_is_exact_if_its_last_count_is_the_true_one() -> None:
    truth = {b"a": 2, b"b": 3, b"c": 1, b"d": 1}
    assert exactness(truth, truth) == {"exact %": 100.0, "missing": 0}
    assert exactness({b"a": 2, b"b": 1}, truth) == {"exact %": 25.0, "missing": 4}
    with pytest.raises(DifferentResultsError, match=r"1 windows have more records .* b'e' has 1, not 0"):
        exactness(truth | {b"e": 1}, truth)


@pytest.mark.parametrize("contender", [OURS, pytest.param(f"{OURS}, 2 processes", marks=long)])
def test_a_backlog_of_one_partition_is_exact(server: Server, monkeypatch: pytest.MonkeyPatch, contender: str) -> None:
    of_backlog(monkeypatch, lambda rows: [(b"a key", value, time) for _, value, time in rows])  # all in one
    measures = measured(CONTENDERS[contender], "backlog", 1_001, server)
    assert {name: measures[name] for name in LOST} == {"exact %": 100.0, "missing": 0, "late": 0}


def test_records_that_are_late_are_missing_and_reported(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last record comes first, so that the windows of all others are closed, except for the last six seconds."""
    of_backlog(monkeypatch, last_first, application="late", through=False)

    def command(job: Job) -> list[str]:
        given = CONTENDERS[OURS].command(job)
        return ["tests.benchmarks.late:topology" if part.startswith("benchmarks.") else part for part in given]

    measures = measured(replace(CONTENDERS[OURS], command=command), "backlog", 1_000, server)
    assert {name: measures[name] for name in LOST} == {"exact %": 6.0, "missing": 940, "late": 940}


@long
def test_records_missing_in_a_backlog_were_dropped_as_late(server: Server) -> None:
    measures = measured(CONTENDERS[OURS], "backlog", 20_002, server)
    assert measures["missing"] == measures["late"]
    assert (measures["exact %"] == 100) == (measures["missing"] == 0)


def last_first(rows: list[Row]) -> list[Row]:
    """Return these rows for one user, with the last one first."""
    value = rows[0][1]
    return [(user_of(value), value, time) for _, _, time in (rows[-1], *rows[:-1])]


def of_backlog(monkeypatch: pytest.MonkeyPatch, changed: Callable[[list[Row]], list[Row]], **options: Any) -> None:
    workload = WORKLOADS["backlog"]
    other = replace(workload, rows=lambda count: changed(list(workload.rows(count))), **options)
    monkeypatch.setitem(WORKLOADS, "backlog", other)


# -- figures


def test_measurements_become_a_table_and_a_chart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = {
        (OURS, "keyed-count"): {"records/s": 300_000.0, "CPU us": 3.0},
        (f"Kafka Streams, {EXACTLY}, defaults", "keyed-count"): {"records/s": 240_000.0, "CPU us": 4.0},
        (f"Kafka Streams, {EXACTLY}, tuned", "keyed-count"): {"records/s": 200_000.0, "CPU us": 4.0},
        (OURS, "latency"): {"p50 ms": 12.0, "p99 ms": 36.0},
        (OURS, "backlog"): {"records/s": 60_000.0, "CPU us": 6.0, "exact %": 25.04, "missing": 74_950, "late": 74_950},
        (FAUST, "backlog"): {"records/s": 1_600.0, "CPU us": 300.0, "exact %": 100.0, "missing": 0},
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
        "| backlog | exact windows | records missing | reported as late | records/s | us of CPU a record |",
        "| --- | --: | --: | --: | --: | --: |",
        "| streamtopo, exactly once | 25.0 % | 74,950 | 74,950 | 60k | 6.0 |",
        "| Faust, at least once | 100.0 % | 0 |  | 1.6k | 300.0 |",
        "",
        "2026-11-18, commit abc; fast, 2 cores, Python 3.11.",
    ]
    drawn = ElementTree.parse(tmp_path / "peers.svg").getroot()
    bars = [float(bar.get("width", "")) for bar in drawn.iter("{http://www.w3.org/2000/svg}rect")]
    assert [bars[0] / bars[1], len(bars)] == [pytest.approx(1.25, rel=0.01), 6]
