"""The benchmarks run, both sides of each give the same results, and saved results can be compared."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from benchmarks import compare, tables
from benchmarks.__main__ import main
from benchmarks.experiment import Experiment, Observed, percentile
from benchmarks.experiments import EXPERIMENTS
from benchmarks.harness import DifferentResultsError, Settings, check_equal, run_pairs
from benchmarks.machine import ROOT, this_machine
from benchmarks.places import Site, fresh_site
from benchmarks.processes import BrokenRunError, until, worker
from benchmarks.results import Results
from benchmarks.run import Measured
from benchmarks.trials import run_sides
from benchmarks.workloads import WORKLOADS


@pytest.mark.parametrize("name", WORKLOADS)
def test_engine_and_bare_loop_give_the_same_results(name: str) -> None:
    figures = run_pairs(WORKLOADS[name], Settings(runs=1, records=2000))
    assert figures.as_json()["records"] == 2000


def test_benchmarks_run_on_the_embedded_log_with_rocksdb_too(tmp_path: Path) -> None:
    run_pairs(WORKLOADS["keyed-count"], Settings(log=f"embedded:{tmp_path}", runs=1, records=2000))
    assert list(tmp_path.iterdir()) == []


MEASURED = {
    "latency": {"p50 ms", "p99 ms", "longest ms"},
    "closing": {"p50 ms", "p99 ms", "longest ms"},
    "hosting": {"loop delayed p99 ms", "query p50 us", "HTTP questions/s", "HTTP p99 ms", "records/s meanwhile"},
    "reading": {"records/s", "commit p50 ms", "commit p99 ms", "WAL at most MB", "memory at most MB"},
    "two-processes": {"words/s", "words/s of CPU"},
    "memory": {"MB at most", "keys/s"},
    "cleaning": {"in the changelog at most", "records/s"},
    "open-sessions": {"MB at most", "records/s"},
    "dead-letters": {"seconds", "CPU seconds", "bytes per letter"},
    "failures": {"CPU us per record", "dead letters"},
}


@pytest.mark.parametrize("name", [name for name, one in EXPERIMENTS.items() if not one.log])
def test_all_sides_of_an_experiment_give_the_same_results(name: str, tmp_path: Path) -> None:
    findings = run_sides(EXPERIMENTS[name], Settings(log=f"embedded:{tmp_path}", runs=1, records=200))
    assert list(findings.sides) == list(EXPERIMENTS[name].sides)
    assert all(MEASURED[name] <= measures.keys() for measures in findings.sides.values())
    assert list(tmp_path.iterdir()) == []


def test_a_side_with_different_results_fails_the_experiment(tmp_path: Path) -> None:
    sides = {name: partial(observed, name) for name in ("ours", "theirs")}
    with pytest.raises(DifferentResultsError, match="odd: theirs left other results than the first run: 1 rows"):
        run_sides(Experiment("odd", "?", 1, sides), Settings(log=f"embedded:{tmp_path}", runs=1))


def test_each_experiment_has_its_own_table(tmp_path: Path) -> None:
    sides = {"ours": partial(observed, "same"), "theirs": partial(observed, "same")}
    findings = run_sides(Experiment("odd", "?", 7, sides), Settings(log=f"embedded:{tmp_path}", runs=2))
    assert tables.text_of(findings).splitlines() == [
        "odd           slowest ms                  keys/s",
        "ours    2.5 (2.5 to 2.5)  8,640 (8,640 to 8,640)",
        "theirs  2.5 (2.5 to 2.5)  8,640 (8,640 to 8,640)",
    ]


def observed(digest: str, site: Site, records: int) -> Observed:
    return Observed({"slowest ms": 2.5, "keys/s": 1234.5 * records}, Results(1, digest))


def test_a_worker_that_ends_early_fails_the_run(tmp_path: Path) -> None:
    ended = pytest.raises(BrokenRunError, match="no module")
    with fresh_site(f"embedded:{tmp_path}") as site, ended, worker("apps.nothing", site) as running:
        until(lambda: False, "anything", running.check)


def test_different_results_fail_a_workload() -> None:
    one, other = (Measured(1.0, 1.0, Results(2, digest)) for digest in ("aa", "bb"))
    with pytest.raises(DifferentResultsError, match="keyed-count: engine and bare loop left different results: 2 rows"):
        check_equal("keyed-count", one, other)


def test_without_names_the_workloads_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*WORKLOADS, *EXPERIMENTS]


def test_the_table_is_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["restore", "--records", "100", "--runs", "1", "--markdown"]) == 0
    head, rule, row, *_ = capsys.readouterr().out.splitlines()
    assert head.startswith("| workload |")
    assert rule.startswith("| --- |")
    assert row.startswith("| restore | 100 |")


def test_results_are_saved_by_machine_day_and_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.__main__.RESULTS", tmp_path)
    assert main(["restore", "--records", "100", "--runs", "1", "--json", "--keep"]) == 0
    (file,) = tmp_path.glob("*/*.jsonl")
    assert file.parent.name == this_machine().name
    assert json.loads(file.read_text())["workload"] == "restore"


def test_a_profile_shows_where_the_time_of_a_record_goes() -> None:
    command = [sys.executable, "-m", "benchmarks.profile", "restore", "--records", "300000", "--signal"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.match(r"restore, engine: \d+ ns of CPU per record", done.stdout)
    assert re.search(r"\n +\d+ +\d+   \S+\.py \S+", done.stdout)


def kept(file: Path, engine: int, ratio: float, workload: str = "keyed-count") -> str:
    line = {"workload": workload, "log": "memory:", "records": 10, "engine": engine, "ratio": ratio, "machine": {}}
    file.write_text(json.dumps(line) + "\n")
    return str(file)


@pytest.mark.parametrize(("engine", "status"), [(900, 0), (899, 1)])
def test_comparing_fails_if_a_workload_lost_a_tenth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: int, status: int
) -> None:
    before, after = kept(tmp_path / "a", 1000, 0.5), kept(tmp_path / "b", engine, 0.6)
    assert compare.main([before, after]) == status
    assert ("too slow" in capsys.readouterr().out) == bool(status)
    assert compare.compare(compare.load(tmp_path / "a"), compare.load(tmp_path / "b")) == [
        compare.Row("keyed-count on memory:, 10 records", engine / 1000, 1.2)
    ]


def test_comparing_needs_results_in_common(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = kept(tmp_path / "a", 1000, 0.5), kept(tmp_path / "b", 1000, 0.5, "restore")
    assert compare.main([before, after]) == 2
    assert "no workload in common" in capsys.readouterr().err


def test_percentiles_are_measured_values() -> None:
    assert [percentile(range(1, 101), share) for share in (50, 99, 100)] == [50, 99, 100]
    assert percentile([7.0], 99) == 7.0
