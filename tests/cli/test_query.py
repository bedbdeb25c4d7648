"""streamtopo query and worker --web-port: rows of running workers, of a pool, and from the disk without a worker."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamtopo.logs.embedded import EmbeddedLog
from tests.cli.conftest import Run
from tests.cli.workers import Running, application, committed, log_of, send, until

KEYS = [f"key {number}" for number in range(20)]
COUNTS: list[Any] = [{"key": key, "value": 2} for key in sorted(KEYS)]


@pytest.fixture
def log(folder: Path) -> Iterator[EmbeddedLog]:
    application(folder)
    one = log_of(folder, 4)
    send(one, KEYS * 2)
    yield one
    one.close()


@pytest.fixture
def start(folder: Path, log: EmbeddedLog) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(*options: str) -> Running:
        started.append(Running(folder, "counting", *options))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def asked(run: Run, *arguments: str) -> list[Any]:
    result = run("query", "counting", "counts", "--json", "--wait", "60s", *arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def all_committed(log: EmbeddedLog) -> None:
    until(lambda: committed(log) == 2 * len(KEYS))


def get(address: str, path: str, token: str = "") -> Any:
    request = urllib.request.Request(address + path, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def address_of(worker: Running) -> str:
    worker.wait_for("answers at")
    until(lambda: re.search(r"answers at +(\S+)\n", worker.said))
    found = re.search(r"answers at +(\S+)\n", worker.said)
    assert found
    return found[1]


def test_a_running_worker_answers(run: Run, log: EmbeddedLog, start: Callable[..., Running]) -> None:
    worker = start("--web-port", "0")
    address = address_of(worker)
    all_committed(log)
    until(lambda: asked(run) == COUNTS)
    assert asked(run, "key 7") == [{"key": "key 7", "value": 2}]
    assert asked(run, "--from", "key 3", "--to", "key 5") == [one for one in COUNTS if "key 3" <= one["key"] <= "key 5"]
    assert asked(run, "--reverse", "--max", "1") == COUNTS[-1:]
    assert asked(run, "--prefix", "key 1") == [one for one in COUNTS if one["key"].startswith("key 1")]
    assert run("query", "counting", "counts", "key 7").stdout == "key 7\t2\n"
    assert get(address, "/stores/counts/key%207")["value"] == 2
    assert get(address, "/health/ready") == {"state": "running"}
    nothing = run("query", "counting", "counts", "nothing")
    assert (nothing.exit_code, nothing.stderr) == (1, 'store "counts" has no key "nothing"\n')
    worker.process.send_signal(signal.SIGTERM)
    assert worker.end() == (0, "")


def test_without_a_worker_the_stores_are_read(run: Run, log: EmbeddedLog, start: Callable[..., Running]) -> None:
    worker = start()
    all_committed(log)
    refused = run("query", "counting", "counts")
    assert (refused.exit_code, "start each of them with --web-port" in refused.stderr) == (1, True)
    worker.process.kill()
    worker.end()
    assert asked(run) == COUNTS
    assert asked(run, "key 7") == COUNTS[-3:-2]
    assert asked(run, "--state-dir", "elsewhere") == COUNTS
    assert not Path("elsewhere").exists()
    wrong = run("query", "counting", "count")
    assert (wrong.exit_code, 'there is no store "count"; the topology has counts' in wrong.stderr) == (1, True)


def test_a_pool_answers_at_one_port_even_if_a_process_dies(
    run: Run, log: EmbeddedLog, start: Callable[..., Running]
) -> None:
    pool = start("--processes", "2", "--web-port", "0", "--web-token", "secret")
    all_committed(log)
    until(lambda: len(log.groups()["counting"].addresses) == 2)
    token = ("--web-token", "secret")
    until(lambda: asked(run, *token) == COUNTS)
    addresses = set(log.groups()["counting"].addresses.values())
    for address in addresses:  # each process knows where the rows of the other are
        assert get(address, "/stores/counts?limit=100&wait=60s", "secret")["rows"] == COUNTS
        with pytest.raises(urllib.error.HTTPError, match="401"):
            get(address, "/stores/counts")
    os.kill(pool.children()[0], signal.SIGKILL)
    assert asked(run, *token) == COUNTS
    until(lambda: len(log.groups()["counting"].addresses) == 2)
    assert asked(run, *token) == COUNTS


def test_a_used_port_is_an_error(log: EmbeddedLog, start: Callable[..., Running]) -> None:
    address = address_of(start("--web-port", "0"))
    port = address.rpartition(":")[2]
    code, said = start("--web-port", port).end()
    assert (code, said) == (
        1,
        f"Error: port {port} of 127.0.0.1 cannot be opened: Address already in use; choose another one\n",
    )


CHANGED = {
    "another store": ('name="counts"', 'name="totals"', "counts -> gone|store counts: .* -> gone"),
    "another type": ('"in", key=str, value=str', '"in", key=bytes, value=str', "key str, .* -> .*key bytes"),
}


@pytest.mark.parametrize("edit", CHANGED)
def test_a_changed_application_is_an_error_and_creates_no_files(
    run: Run, log: EmbeddedLog, start: Callable[..., Running], folder: Path, edit: str
) -> None:
    worker = start()
    all_committed(log)
    worker.process.send_signal(signal.SIGTERM)
    worker.process.wait()
    before, after, reason = CHANGED[edit]
    (folder / "counting.py").write_text((folder / "counting.py").read_text().replace(before, after))
    sys.modules.pop("counting", None)
    kept = sorted(folder.rglob("*"))
    for store in ("counts", "totals"):
        result = run("query", "counting", store, "key 1")
        assert result.exit_code == 1
        assert "the topology no longer fits its stored state" in result.output
        assert re.search(reason, result.output)
    assert [path for path in sorted(folder.rglob("*")) if path not in kept and "__pycache__" not in str(path)] == []


def test_a_new_store_is_an_error_and_creates_no_files(run: Run, log: EmbeddedLog, folder: Path) -> None:
    kept = sorted(folder.rglob("*"))
    result = run("query", "counting", "counts", "key 1")
    assert 'store "counts" has no rows yet: no worker of "counting" has run with it; start one' in result.output
    assert [path for path in sorted(folder.rglob("*")) if path not in kept and "__pycache__" not in str(path)] == []


@pytest.mark.parametrize(
    ("store", "instead"),
    [("counts", "without it, the current row is shown"), ("minutes", "--from and --to show its windows at a time")],
)
def test_a_store_without_versions_has_no_row_as_of_a_time(run: Run, folder: Path, store: str, instead: str) -> None:
    (folder / "timed.py").write_text(_TIMED)
    log_of(folder, 1).close()
    result = run("query", "timed", store, "a", "--as-of", "5")
    assert result.exit_code == 2, result.output
    assert f'store "{store}" keeps no versions, so --as-of cannot be used; {instead}' in " ".join(result.output.split())


_TIMED = """
from streamtopo import StreamsBuilder, Windows
builder = StreamsBuilder("timed")
grouped = builder.stream("in", key=str, value=str).group_by_key()
grouped.count(name="counts")
grouped.windowed_by(Windows.tumbling("1m")).count(name="minutes")
"""
