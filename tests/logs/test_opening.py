"""Which log a url names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from streamtopo.errors import LogError
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.logs.memory import MemoryLog
from streamtopo.logs.opening import SCHEMES, Scheme, directory_of, log_exists, open_log, shown_log, spark_reader


def test_each_scheme_has_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(open_log("memory:"), MemoryLog)
    log = open_log(f"embedded:{tmp_path}/a?synchronous=normal")
    assert isinstance(log, EmbeddedLog)
    assert log.path == tmp_path / "a"
    log.close()
    log = open_log()
    assert isinstance(log, EmbeddedLog)
    log.close()
    assert (tmp_path / ".streamtopo" / "log.db").exists()


@pytest.mark.parametrize("url", ["", "carrier-pigeon:home", "/a/path"])
def test_an_unknown_kind_of_log_lists_the_known_ones(url: str) -> None:
    with pytest.raises(
        LogError, match=r"a log is one of embedded:PATH, embedded:PATH\?synchronous=normal, kafka://HOST:PORT, memory:"
    ):
        open_log(url)


@pytest.mark.parametrize("url", ["kafka:one:9092,two:9092", "kafka:/one:9092,two:9092", "kafka:///one:9092,two:9092"])
def test_a_kafka_url_without_its_slashes_is_answered_with_the_right_one(url: str) -> None:
    with pytest.raises(LogError, match=r"has two slashes: write kafka://one:9092,two:9092$"):
        open_log(url)


def test_options_are_checked(tmp_path: Path) -> None:
    with pytest.raises(LogError, match='option "sync", which embedded: logs do not have; they have synchronous'):
        open_log(f"embedded:{tmp_path}?sync=normal")
    with pytest.raises(LogError, match='synchronous must be "full" or "normal", not "off"'):
        open_log(f"embedded:{tmp_path}?synchronous=off")


def test_another_kind_of_log_is_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[str, dict[str, str]]] = []

    def open_files(address: str, options: Mapping[str, str]) -> MemoryLog:
        opened.append((address, dict(options)))
        return MemoryLog()

    files = Scheme(open_files, ("files:PATH",), frozenset({"depth"}), directory=Path, exists=Path.is_dir)
    monkeypatch.setitem(SCHEMES, "files", files)
    url = f"files:{tmp_path}/me@work?depth=2"
    open_log(url)
    assert opened == [(f"{tmp_path}/me@work", {"depth": "2"})]
    assert (directory_of(url), log_exists(url), spark_reader(url)) == (tmp_path / "me@work", False, None)
    (tmp_path / "me@work").mkdir()
    assert (log_exists(url), shown_log(url)) == (True, f"files:{tmp_path}/me@work?depth=***")
    with pytest.raises(LogError, match=r"a log is one of .*, files:PATH"):
        open_log("carrier-pigeon:home")


def test_only_a_log_in_files_can_be_missing(tmp_path: Path) -> None:
    url = f"embedded:{tmp_path}/log"
    assert not log_exists(url)
    open_log(url).close()
    assert log_exists(url)
    assert log_exists("memory:")
    assert log_exists("kafka://host:9092")
