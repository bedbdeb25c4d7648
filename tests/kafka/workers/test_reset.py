"""`streamtopo reset` on a cluster: records are counted again, and dead members are waited for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streamtopo.cli import main
from streamtopo.logs.kafka import KafkaLog
from tests.kafka.workers.lives import committed, exact, feed, members, outputs, total, until, workers

pytestmark = pytest.mark.kafka
SOON = "?kafka.session.timeout.ms=6000&kafka.group.protocol=classic"


def test_a_reset_application_starts_over_even_after_a_kill(
    log: KafkaLog, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "counting", raising=False)  # another test's module

    def reset(*options: str) -> Result:
        return CliRunner().invoke(main, ["reset", "./counting.py", "--log", kafka, *options])

    with workers(tmp_path, kafka + SOON) as running:
        running.start()
        feed(log, range(1000))
        until(lambda: total(log) >= 1000 and committed(log) >= 1000, running)
        alive = reset()
        assert (alive.exit_code, 'group "counting" has 1 member alive' in alive.stderr) == (1, True), alive.output
        running.kill(running.running[0])
        assert members(log) == 1
        result = reset("--force", "--to-earliest")
        assert result.exit_code == 0, result.output
        assert sorted(log.topics()) == ["in", "out"]
        assert {str(part): at for part, at in log.groups()["counting"].positions.items()} == {
            f"in/{number}": (0, "") for number in range(4)
        }
        running.start()
        until(lambda: total(log) >= 2000, running)
        assert running.stop() == [0], running.output()
    once = exact(1000)
    assert outputs(log) == {key: counted * 2 for key, counted in once.items()}
