"""The blocks of README and docs that need a broker run."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamtopo.logs.kafka import KafkaLog
from tests.docs.pages import PAGES, blocks, play

WITH_KAFKA = [page for page in PAGES if any(block.mark == "kafka" for block in blocks(page))]


@pytest.mark.parametrize("page", WITH_KAFKA, ids=lambda page: page.name)
def test_a_page_works_as_it_says(
    page: Path, log: KafkaLog, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    play(page, tmp_path, ["kafka"], broker=kafka.removeprefix("kafka://"))
