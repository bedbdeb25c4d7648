"""Unusable input is one clear error; nothing is lost, and the corrected program continues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamtopo import StreamsBuilder
from streamtopo.logs import Topic
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.records import Columns, TopicPartition
from tests.crash.apps import feed, new_log, working, written
from tests.crash.lives import until

ROOT = Path(__file__).absolute().parents[2]
PROGRAM = """
import sys
from streamtopo import StreamsBuilder, Worker
log, state_dir, value, options = sys.argv[1:]
builder = StreamsBuilder("app")
words = builder.stream("in", key=str, value=str)
words.filter_not(lambda _, word: word == "filtered").map_values(lambda word: word.upper()).to("out")
words.group_by_key(value=eval(value)).reduce(lambda _, word: word, name="rows").to_stream().to("rows")
Worker(builder.build(), log=f"embedded:{log}", state_dir=state_dir, memory="1MB", **eval(options)).run()
"""
SMALL_COMMITS = "dict(cache=0, chunk=20, commit_interval=0, commit_pause=0)"


class App:
    """The program, its log, and its other options."""

    def __init__(self, path: Path) -> None:
        self.log_path, self.state_dir = path / "log", path / "state"
        self.value = "str"
        self.options = "{}"

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-c", PROGRAM, str(self.log_path), str(self.state_dir), self.value, self.options]
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
            try:
                yield process
            finally:
                process.kill()

    def error(self, timeout: float = 60) -> str:
        """Return the last line written before it ends with exit code 1."""
        with self.running() as process:
            _, output = process.communicate(timeout=timeout)
        assert process.returncode == 1, output
        return output.splitlines()[-1]

    def works_until(self, condition: Callable[[], object]) -> None:
        with self.running() as process:
            until(lambda: condition() or process.poll() is not None, "the rest")
            process.send_signal(signal.SIGTERM)
            _, output = process.communicate(timeout=60)
        assert (process.returncode, "Traceback" in output) == (0, False), output


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(tmp_path)


@pytest.fixture
def log(app: App) -> Iterator[EmbeddedLog]:
    log = EmbeddedLog(app.log_path)
    for name in ("in", "out", "rows"):
        log.create(Topic(name, 1))
    yield log
    log.close()


def put(log: EmbeddedLog, *pairs: tuple[bytes | None, bytes | None]) -> None:
    log.append(
        TopicPartition("in", 0), Columns([key for key, _ in pairs], [value for _, value in pairs], [0] * len(pairs))
    )


def got(log: EmbeddedLog, topic: str = "out") -> list[bytes | None]:
    return log.read(TopicPartition(topic, 0), 0, 1 << 30).columns.values


# -- records


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ((b"k", None), "AttributeError(\"'NoneType' object has no attribute 'upper'\")"),
        ((b"k", b"\xff"), "not UTF-8: b'\\xff'"),
        ((b"\xff", b"v"), "not UTF-8: b'\\xff'"),
    ],
    ids=["a step raises", "a value that is not text", "a key that is not text"],
)
def test_an_unusable_record_is_an_error_or_skipped(
    app: App, log: EmbeddedLog, bad: tuple[bytes | None, bytes | None], reason: str
) -> None:
    put(log, (b"k", b"a"), (b"k", b"b"), bad, (b"k", b"c"))
    for _ in range(2):
        output = app.error()
        assert f"failed on in/0 offset 2: {reason}" in output
        assert output.endswith('(on_error="dead_letter") to keep such records in a topic, or with skip to drop them')
        assert (got(log), got(log, "rows")) == ([b"A", b"B"], [b"b"])
    app.options = "dict(on_error='skip')"
    with app.running() as process:
        until(lambda: got(log) == [b"A", b"B", b"C"] and got(log, "rows") == [b"b", b"c"])
        process.send_signal(signal.SIGTERM)
        output = process.communicate()[1]
        assert "skipped: step " in output
        assert "on-error" not in output
    assert process.returncode == 0


def test_a_skipped_record_is_counted_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """However often its round is repeated, because others fail before the commit."""
    builder = StreamsBuilder("app")
    builder.stream("in", value=int).map_values(lambda number: 60 // (number % 10)).to("out", value=int)
    log = new_log(tmp_path / "log")
    feed(log, 0, 30)
    with working(builder.build(), log, tmp_path / "state", on_error="skip") as worker:
        assert (worker.skipped, caplog.text.count("skipped: "), written(log, "out")) == (3, 3, 27)
    log.close()


def test_a_step_that_raises_works_when_it_is_fixed(app: App, log: EmbeddedLog) -> None:
    put(log, (b"k", b"a"), (b"k", None), (b"k", b"c"))
    assert 'step "KSTREAM-MAPVALUES-' in app.error()
    mended = PROGRAM.replace("word == ", "word in (None, 'filtered') or word == ")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[__name__], "PROGRAM", mended)
        app.works_until(lambda: got(log) == [b"A", b"C"] and got(log, "rows") == [b"a", b"c"])


def test_records_without_a_key_are_processed_where_no_key_is_needed(app: App, log: EmbeddedLog) -> None:
    put(log, (None, b"a"), (b"k", b"b"))
    app.works_until(lambda: got(log) == [b"A", b"B"] and got(log, "rows") == [b"b"])


@pytest.mark.parametrize(
    ("key", "value"), [(1_000_000, 10), (10, 50_000_000)], ids=["a key of 1 MB", "a value of 50 MB"]
)
def test_large_records_are_processed(app: App, log: EmbeddedLog, key: int, value: int) -> None:
    put(log, (b"k" * key, b"v" * value), (b"k", b"v"))
    app.works_until(lambda: log.end(TopicPartition("out", 0)) == 2 and log.end(TopicPartition("rows", 0)) == 2)
    assert got(log) == [b"V" * value, b"V"]
    assert got(log, "rows") == [b"v" * value, b"v"]
    put(log, (b"k" * key, b"again"))
    app.works_until(lambda: len(got(log)) == 3)


# -- topics, and state of an earlier version


def test_a_changed_topology_is_refused(app: App, log: EmbeddedLog) -> None:
    put(log, (b"k", b"a"))
    app.works_until(lambda: got(log, "rows") == [b"a"])
    app.value = "int"
    assert "go back to the version that wrote it; or start with --accept-changes" in (error := app.error())
    assert "or give the new version another application id" in error
    app.value = "str"
    put(log, (b"k", b"b"))
    app.works_until(lambda: got(log, "rows") == [b"a", b"b"])


@pytest.mark.parametrize("topic", ["in", "out", "rows"])
def test_a_missing_topic_is_an_error(app: App, log: EmbeddedLog, topic: str) -> None:
    log.delete(topic)
    app.options = "dict(create_topics=0)"
    assert f'topic "{topic}" does not exist; create it first: streamtopo topics create {topic}' in app.error()
    log.create(Topic(topic, 1))
    put(log, (b"k", b"a"))
    app.works_until(lambda: got(log) == [b"A"] and got(log, "rows") == [b"a"])


@pytest.mark.parametrize("topic", ["in", "out", "app-rows-changelog"])
def test_deleting_a_topic_of_a_running_worker_is_an_error(app: App, log: EmbeddedLog, topic: str) -> None:
    put(log, (b"k", b"a"))
    with app.running() as process:
        until(lambda: got(log, "rows") == [b"a"])
        log.delete(topic)
        if topic != "in":
            put(log, (b"k", b"b"))
        _, output = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f'"{topic}" was deleted' in output.splitlines()[-1]
    if topic != "app-rows-changelog":  # it is created again when the worker starts
        log.create(Topic(topic, 1))
    put(log, (b"k", b"c"))
    app.works_until(lambda: got(log)[-1:] == [b"C"] and got(log, "rows")[-1] == b"c")


# -- disks


@pytest.fixture(params=["log", "state"])
def small(request: pytest.FixtureRequest, app: App, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Put the log or the state directory on a small disk; yield a function that remounts it with other options."""
    place = tmp_path / request.param
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=30m", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")

    def remount(options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", place], check=True)

    yield remount
    subprocess.run(["umount", "-l", place], check=True)


def put_many(log: EmbeddedLog) -> None:
    for start in range(0, 1500, 300):
        put(log, *((b"k%d" % number, os.urandom(2500).hex().encode()) for number in range(start, start + 300)))


@pytest.mark.parametrize("small", ["log"], indirect=True)
def test_a_full_disk_for_the_log(app: App, small: Callable[[str], None], log: EmbeddedLog) -> None:
    app.options = SMALL_COMMITS
    put_many(log)
    assert f'the log at "{app.log_path}": the disk is full; free some space' in app.error()
    assert 0 < len(got(log)) < 1500
    small("size=200m")
    app.works_until(lambda: len(got(log)) == len(got(log, "rows")) == 1500)


@pytest.mark.parametrize("small", ["state"], indirect=True)
def test_a_full_disk_for_the_state(app: App, small: Callable[[str], None], log: EmbeddedLog) -> None:
    app.options = SMALL_COMMITS
    small("size=4m")
    put_many(log)
    assert f'"{app.state_dir}/app/rows-0/rows" is on a full file system; free some space' in app.error()
    assert 0 < len(got(log)) < 1500
    small("size=200m")
    app.works_until(lambda: len(got(log)) == len(got(log, "rows")) == 1500)


def test_a_disk_that_cannot_be_written_to(app: App, small: Callable[[str], None], tmp_path: Path) -> None:
    log = EmbeddedLog(app.log_path)
    for name in ("in", "out", "rows"):
        log.create(Topic(name, 1))
    put(log, (b"k", b"a"))
    log.close()
    small("ro")
    assert "read-only" in app.error()
    small("rw")
    log = EmbeddedLog(app.log_path)
    app.works_until(lambda: got(log) == [b"A"] and got(log, "rows") == [b"a"])
    log.close()
