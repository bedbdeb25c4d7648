"""Which log a url names."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamtopo.errors import LogError
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.logs.memory import MemoryLog
from streamtopo.logs.opening import open_log


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
def test_what_is_no_log_lists_those_there_are(url: str) -> None:
    with pytest.raises(
        LogError, match=r"a log is one of embedded:PATH, embedded:PATH\?synchronous=normal, kafka://HOST:PORT, memory:"
    ):
        open_log(url)


def test_options_are_checked(tmp_path: Path) -> None:
    with pytest.raises(LogError, match='option "sync", which embedded: logs do not have; they have synchronous'):
        open_log(f"embedded:{tmp_path}?sync=normal")
    with pytest.raises(LogError, match='synchronous is "full" or "normal", not "off"'):
        open_log(f"embedded:{tmp_path}?synchronous=off")
