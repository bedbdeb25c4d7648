"""The examples of docs/guides/embedding.md run, in one go, as a reader would type them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "guides" / "embedding.md").read_text(), re.DOTALL)
    assert len(blocks) == 6
    names: dict[str, object] = {"__name__": "docs"}
    for block in blocks:
        exec(compile(block, "docs/guides/embedding.md", "exec"), names)
    assert capsys.readouterr().out == ""
