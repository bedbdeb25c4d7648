"""streamtopo rollup and reconcile, on word count and the output of its worker."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from apps.wordcount import topology
from streamtopo.cli import main
from streamtopo.errors import StreamtopoError
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, TopicPartition
from streamtopo.serdes import INT
from streamtopo.spark import java, read_rollup, rollup, session, view
from tests.spark.working import work

LINES = ["To be or not to be", " that  is the\tquestion", "", "Größe ÄPFEL Ωmega", "to\u00a0be \u2003 BE\x1cor\x1fBE"]


@pytest.fixture
def wordcount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddedLog:
    """Return a log with sentences of two days, and their counts."""
    monkeypatch.chdir(tmp_path)
    log = EmbeddedLog()
    for name in ("sentences", "word-counts"):
        log.create(Topic(name, 2))
    say(log, LINES)
    work(log, topology)
    return log


def say(log: EmbeddedLog, lines: list[str]) -> None:
    for number, line in enumerate(lines):
        at = number % 2 * 86_400_000
        log.append(TopicPartition("sentences", number % 2), Columns([None], [line.encode()], [at]))


def command(*arguments: Any) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_rollups_of_word_count(spark: SparkSession, wordcount: EmbeddedLog) -> None:
    first = command("rollup", "apps.wordcount")
    assert first.exit_code == 0, first.output
    lines = first.stdout.splitlines()
    assert [line.split(";")[0] for line in lines] == [
        "words-by-day: 5 new records (offsets sentences/0: 0-2, sentences/1: 0-1), 11 rows in 2 spans computed",
        "vocabulary: computed again from words-by-day",
        "top-words: 5 new records (offsets sentences/0: 0-2, sentences/1: 0-1), 11 rows in 2 spans computed",
    ]
    growth = [(row.new, row.words) for row in read_rollup(spark, "rollups", "vocabulary").orderBy("day").collect()]
    assert growth == [(4, 4), (7, 11)]
    say(wordcount, ["be"])
    assert command("rollup", "apps.wordcount", "words-by-day", "--trigger", "available-now").exit_code == 0
    counted = Counter(word.lower() for line in [*LINES, "be"] for word in line.split())
    found = read_rollup(spark, "rollups", "words-by-day").groupBy("word").sum("count").collect()
    assert {row[0]: row[1] for row in found} == counted
    assert command("rollup", "apps.wordcount", "words-by-day").stdout == "words-by-day: nothing new\n"


FAILING = """
from apps.wordcount import topology
from streamtopo.spark import rollup, view

@rollup("mistaken", every="1 day", keys=[])
def mistaken(sentences):
    return {}["nothing"]

@rollup("refused", every="1 day", keys=[])
def refused(sentences):
    return sentences.selectExpr("day", "cast(raise_error('too bad') AS int) AS bad")

from apps.wordcount.rollups import words_by_day
growth = view("growth", of=["words-by-day"])(lambda words: words.nothing)
"""


def test_a_failing_rollup_does_not_stop_the_others(spark: SparkSession, wordcount: EmbeddedLog, tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    result = command("rollup", "failing", "--json")
    sys.modules.pop("failing")
    assert result.exit_code == 1
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    errors = {line["name"]: line["error"] for line in lines}
    assert list(errors) == ["mistaken", "refused", "words-by-day", "growth"]
    assert errors["mistaken"] == "rollup \"mistaken\" failed: KeyError('nothing')"
    assert "too bad" in errors["refused"]
    assert errors["words-by-day"] is None
    assert errors["growth"].startswith('view "growth": ')
    assert sum(line.startswith("Error: ") for line in result.stderr.splitlines()) == 3
    done = lines[2]
    assert (done["records"], done["rows"], done["spans"], done["corrupt"]) == (5, 11, 2, 0)
    assert done["offsets"] == {"sentences/0": [0, 3], "sentences/1": [0, 2]}
    assert done["table"] == str(tmp_path / "rollups" / "words-by-day")
    assert done["seconds"] > 0


def test_reconciling_word_count(spark: SparkSession, wordcount: EmbeddedLog) -> None:
    result = command("reconcile", "apps.wordcount")
    assert (result.exit_code, result.stdout) == (
        0,
        "word-counts: 11 keys, no difference\ncounts: 11 keys, no difference\n",
    )
    target = TopicPartition("word-counts", 0)
    wordcount.append(target, Columns([b"be", b"extra"], [INT.encode(99), INT.encode(1)], [0, 0]))
    result = command("reconcile", "apps.wordcount", "word-counts")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0].endswith("keys, 2 differences")
    assert "  'extra': expected None, found 1" in result.stdout
    say(wordcount, ["more"])
    result = command("reconcile", "apps.wordcount")
    assert (result.exit_code, "has 1 records to process yet" in result.output) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rollup", "apps.wordcount", "nothing"], 'declares no @rollup "nothing"; it has words-by-day, top-words'),
        (["rollup", "streamtopo.testing"], "has no Topology"),
        (["rollup", "apps.wordcount", "--since", "soon"], "'soon' is not a time"),
        (["rollup", "apps.wordcount", "--since", "20261101"], "'20261101' is not a time"),
        (
            ["rollup", "apps.wordcount", "words-by-day", "--log", "embedded:log", "--out", "{file}/x"],
            '/x/words-by-day": Not a directory',
        ),
        (["rollup", "apps.wordcount", "--log", "memory:"], "give embedded:DIRECTORY"),
        (["reconcile", "apps.wordcount", "--log", "embedded:nowhere"], 'there is no log at "'),
        (
            ["rollup", "apps.wordcount", "--into", "topic:x"],
            "topic:x takes one rollup, because it has the rows of one table",
        ),
    ],
)
def test_mistakes_are_reported(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    EmbeddedLog("log").create(Topic("sentences", 1))
    (tmp_path / "file").touch()
    result = command(*(one.replace("{file}", str(tmp_path / "file")) for one in arguments))
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert not (tmp_path / ".streamtopo").exists()


def test_java_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StreamtopoError, match="needs Java 17 or newer, and the PATH has none"):
        java.check_java()
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    program.chmod(0o755)
    with pytest.raises(StreamtopoError, match=r"needs Java 17 or newer, and .*java is 11; install it"):
        java.check_java()
    program.write_text("#!/bin/sh\necho 'java version \"1.8.0_392\"' >&2\n")
    with pytest.raises(StreamtopoError, match=r"java is 8; install it"):
        java.check_java()


def test_the_error_message_of_java_is_shown(spark: SparkSession) -> None:
    message = r"^trying: java\.lang\.ClassNotFoundException: nothing$"
    with pytest.raises(StreamtopoError, match=message), session.explained("trying"):
        spark.sparkContext._jvm.java.lang.Class.forName("nothing")  # type: ignore[union-attr]


def test_wrong_declarations_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mistaken").mkdir()
    (tmp_path / "mistaken" / "__init__.py").write_text("from apps.wordcount import topology\n")
    declared = tmp_path / "mistaken" / "rollups.py"
    declared.write_text(
        "from streamtopo.spark import rollup, view\n"
        "one = rollup('one', every='1 day')(lambda sentences: sentences)\n"
        "two = view('two', of=['once'])(lambda one: one)\n"
    )
    assert 'view "two" reads once, but mistaken has the rollups one' in command("rollup", "mistaken").output
    declared.write_text("import missing_module\n")
    sys.modules.pop("mistaken.rollups")
    assert 'importing "mistaken.rollups" failed: ModuleNotFoundError' in command("rollup", "mistaken").output
    with pytest.raises(StreamtopoError, match=r'keys="word" is a string; give a list of names, keys=\["word"\]'):
        rollup("x", every="1 day", topic="t", keys="word")(lambda t: t)
    with pytest.raises(StreamtopoError, match='of="words"'):
        view("x", of="words")(lambda words: words)
    for name in ("mistaken", "mistaken.rollups"):
        sys.modules.pop(name, None)
