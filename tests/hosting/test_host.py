"""An engine inside a program: its states, its failures, and that nothing of it remains."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from streamtopo import Serde, StreamsBuilder, Windowed, Worker, host
from streamtopo.errors import ConfigError, LogError, PartitionError, SerdeError, StepError, StreamtopoError
from streamtopo.hosting.app import App, AsyncApp, HostError
from streamtopo.hosting.engines.lifecycle import AppState
from streamtopo.logs import Log
from streamtopo.partitioning import partition_of
from streamtopo.records import Columns, TopicPartition
from streamtopo.serdes.windowed import time_windowed
from tests.hosting.conftest import PATIENCE, counting, outputs, send, until

ROOT = Path(__file__).parents[2]
AT_ONCE = 5

# -- its life


def test_a_script_hosts_a_topology(url: str, log: Log, options: dict[str, Any]) -> None:
    send(log, "a", "b", "a")
    with host(counting(), url, **options) as app:
        app.ready(PATIENCE)
        counts = app.query("counts", wait=PATIENCE)
        assert counts.get("b") in (None, 1)
    assert app.state is AppState.NOT_RUNNING
    assert sorted(outputs(log))[-1] == ("b", 1)


def test_an_app_logs_once_how_many_tasks_it_has(
    url: str, log: Log, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="streamtopo")
    hosted = host(counting(), url, **options)
    with hosted as app:
        app.ready(PATIENCE)
        place = f"log {url}, stores in {options['state_dir']}"
        assert repr(app) == f"App(counting: running with 3 tasks; {place})"
        app.pause()
        app.resume()
    line = f'app "counting" is running: it has 3 of 3 tasks (3 for in); {place}'
    assert [text for text in caplog.messages if "tasks" in text] == [line]
    assert repr(app) == f"App(counting: not running; {place})"
    assert repr(hosted).startswith(f"Host(Topology(counting: reads in; writes out; stores counts), log {url}; ")


async def test_a_service_hosts_a_topology(url: str, log: Log, options: dict[str, Any]) -> None:
    async with host(counting(), url, **options) as app:
        await app.ready(PATIENCE)
        assert app.state.value == "running"
        changes = app.consume("out")
        await app.produce("in", "x", key="a")
        record = await anext(changes)
        assert (record.key, record.value) == ("a", 1)
        until(lambda: app.query("counts").get("a") == 1)
    assert app.state is AppState.NOT_RUNNING


def test_states_are_reported_in_their_order(url: str, log: Log, options: dict[str, Any]) -> None:
    encoded: list[tuple[AppState, AppState]] = []
    with host(counting(), url, on_state_change=lambda new, old: encoded.append((old, new)), **options) as app:
        app.ready(PATIENCE)
    passed = [encoded[0][0], *(new for _, new in encoded)]
    assert [old for old, _ in encoded] == passed[:-1]
    assert passed == [
        AppState.CREATED,
        AppState.REBALANCING,
        AppState.RUNNING,
        AppState.PENDING_SHUTDOWN,
        AppState.NOT_RUNNING,
    ]


def test_a_failing_listener_is_logged(
    url: str, log: Log, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with host(counting(), url, on_state_change=lambda new, old: 1 / 0, **options) as app:
        app.ready(PATIENCE)
    assert "ZeroDivisionError" in caplog.text


def test_a_listener_can_scale_the_app(url: str, log: Log, options: dict[str, Any]) -> None:
    apps: list[App] = []
    done = threading.Event()

    def watch(new: AppState, old: AppState) -> None:
        if new is AppState.RUNNING and apps and apps[0].workers == 3:
            apps[0].scale(2)
            done.set()

    with host(counting(), url, on_state_change=watch, **options) as app:
        apps.append(app)
        app.ready(PATIENCE)
        app.scale(3)
        assert done.wait(60)
        app.ready(PATIENCE)
        assert app.workers == 2


def test_two_apps_in_one_process_share_the_work(url: str, log: Log, options: dict[str, Any]) -> None:
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    with host(counting(), url, **options) as one:
        with host(counting(), url, **options) as other:
            for app in (one, other):
                app.ready(PATIENCE)
            assert sys.getswitchinterval() < interval
            send(log, "a", "b", "c", "d")
            changes = one.consume("out", from_beginning=True)
            assert sorted(next(changes).key for _ in range(4)) == ["a", "b", "c", "d"]
        assert sys.getswitchinterval() < interval
    assert (sys.getswitchinterval(), gc.get_threshold()) == (interval, threshold)


def test_the_same_host_can_be_entered_again(url: str, log: Log, options: dict[str, Any]) -> None:
    hosted = host(counting(), url, **options)
    for count in (1, 2):
        with hosted as app:
            app.produce("in", "x", key="a").result(60)
            assert any(record.value == count for record in app.consume("out", from_beginning=True))


async def test_tasks_that_enter_the_same_host_leave_each_its_own(url: str, log: Log, options: dict[str, Any]) -> None:
    host_of_both = host(counting(), url, **options)
    inside, entered = asyncio.Event(), asyncio.Event()

    async def first() -> AsyncApp:
        async with host_of_both as app:
            inside.set()
            await entered.wait()
        return app

    leaving = asyncio.create_task(first())
    await inside.wait()
    async with host_of_both as app:
        entered.set()
        assert (await leaving).state is AppState.NOT_RUNNING
        await app.ready(PATIENCE)
        assert await app.produce("in", "x", key="a") == 0
    assert app.state is AppState.NOT_RUNNING


def test_another_thread_can_leave_a_host(url: str, log: Log, options: dict[str, Any]) -> None:
    one = host(counting(), url, **options)
    app = one.__enter__()
    thread = threading.Thread(target=one.__exit__, args=(None, None, None), daemon=True)
    thread.start()
    thread.join()
    assert app.state is AppState.NOT_RUNNING


def test_errors_are_raised_at_the_start(url: str, options: dict[str, Any]) -> None:
    refused = pytest.raises(PartitionError, match='topic "in", sink topic "out" do not exist; create them')
    with refused, host(counting(), url, create_topics=0, **options):
        pass
    with pytest.raises(ConfigError, match='no option "colour"'):
        host(counting(), url, colour="red")


async def test_errors_are_raised_at_the_start_on_a_loop(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(PartitionError, match='topic "in", sink topic "out" do not exist; create them'):
        async with host(counting(), url, create_topics=0, **options):
            pass


def test_an_app_that_was_not_started_raises_errors(url: str) -> None:
    from streamtopo.hosting.app import App
    from streamtopo.hosting.engines.factory import HostSettings
    from streamtopo.settings.config import config_of

    app = App(counting(), url, config_of(), HostSettings(None, lambda error: None, 1.0, "", None))
    with pytest.raises(HostError, match="the app is created; use it inside its with block"):
        app.produce("in", "x")
    with pytest.raises(HostError, match="the app is created"):
        app.query("counts")


def test_windowed_keys_are_produced_to_the_partition_of_their_inner_key(
    url: str, log: Log, options: dict[str, Any]
) -> None:
    builder = StreamsBuilder("windows")
    builder.stream("in", key=time_windowed(str, 10), value=str).to("out")
    with host(builder, url, **options) as app:
        changes = app.consume("out")
        for start in range(0, 100, 10):
            app.produce("in", "x", key=Windowed("a", start, start + 10)).result(60)
        found = [next(changes) for _ in range(10)]
    assert [(record.key.start, record.partition) for record in found] == [
        (start, partition_of(b"a", 3)) for start in range(0, 100, 10)
    ]


@pytest.mark.parametrize(
    "record",
    [
        {"headers": [("trace", "no bytes")]},
        {"headers": ["xy"]},
        {"headers": [["trace", b"1"]]},
        {"headers": [(1, b"")]},
        {"headers": [("\udc80", b"")]},
        {"timestamp": -(1 << 64)},
    ],
)
def test_a_record_that_the_log_cannot_store_is_refused_alone(
    record: dict[str, Any], url: str, log: Log, options: dict[str, Any]
) -> None:
    with host(counting(), url, **options) as app:
        before = [app.produce("in", "x", key="a") for _ in range(100)]
        with pytest.raises(LogError, match="a record for in/"):
            app.produce("in", "x", key="a", **record)
        after = app.produce("in", "x", key="a", headers=(("trace", b"1"), ("état", b"")))
        assert [one.result(60) for one in (*before, after)] == list(range(101))


def test_a_record_that_was_not_encoded_is_refused_alone(url: str, log: Log, options: dict[str, Any]) -> None:
    builder = StreamsBuilder("plain")
    unfinished: Any = Serde("unfinished", lambda value: value, lambda data: data)
    builder.stream("in", key=str, value=unfinished).to("out")
    with host(builder, url, **options) as app:
        with pytest.raises(StreamtopoError):
            app.produce("in", "text", key="a")
        assert app.produce("in", b"bytes", key="a").result(60) == 0


async def test_a_consumer_continues_after_a_timeout(url: str, log: Log, options: dict[str, Any]) -> None:
    async with host(counting(), url, **options) as app:
        changes = app.consume("in")
        found: list[int] = []
        for number in range(300):
            delivery = app.produce("in", "x", key="a")
            with suppress(TimeoutError):  # sometimes before it is read, sometimes after, sometimes in between
                async with asyncio.timeout(number % 30 / 10_000):
                    found.append((await anext(changes)).offset)
            await delivery
        while len(found) < 300:
            found.append((await anext(changes)).offset)
        assert found == list(range(300))


async def test_one_thread_polls_for_all_waiting_consumers(url: str, log: Log, options: dict[str, Any]) -> None:
    def watching() -> int:
        return sum(thread.name == "streamtopo poller" for thread in threading.enumerate())

    async with host(counting(), url, **options) as app:
        consumers = [app.consume("in") for _ in range(100)]
        for number in range(3):
            coming = [asyncio.ensure_future(anext(one)) for one in consumers]
            while not watching():
                await asyncio.sleep(0.001)
            await app.produce("in", "x", key=str(number))
            found = await asyncio.gather(*coming)
            assert {one.key for one in found} == {str(number)}
            assert watching() <= 1
        coming = [asyncio.ensure_future(anext(one)) for one in consumers]
        while not watching():
            await asyncio.sleep(0.001)
        for one in coming[1:]:
            one.cancel()
        await app.produce("in", "x", key="last")
        assert (await coming[0]).key == "last"
        while watching():
            await asyncio.sleep(0.001)
        ending = [asyncio.ensure_future(anext(one)) for one in consumers[:1]]
        await app.close()
        assert isinstance((await asyncio.gather(*ending, return_exceptions=True))[0], StopAsyncIteration)


async def test_a_value_that_cannot_be_decoded_is_not_skipped(url: str, log: Log, options: dict[str, Any]) -> None:
    async with host(counting(), url, **options) as app:
        numbers = app.consume("out", value=int)
        for number, data in enumerate([(1).to_bytes(8), b"no number", (3).to_bytes(8)]):
            log.append(TopicPartition("out", number), Columns([b"k"], [data], [0]))
        for _ in range(2):  # the log has them in this order, so the first one would be lost
            with pytest.raises(SerdeError):
                await anext(numbers)


# -- pausing


def test_a_paused_app_processes_nothing_and_keeps_its_tasks(url: str, log: Log, options: dict[str, Any]) -> None:
    with host(counting(), url, **options) as app:
        app.ready(PATIENCE)
        changes = app.consume("out", from_beginning=True)
        app.produce("in", "x", key="a").result(60)
        assert next(changes).value == 1
        app.pause()
        turned = threading.Event()
        app.produce("in", "x", key="a").result(60)
        (worker,) = app._thread_engine.workers
        run_once, turns = worker.run_once, iter(range(1000))

        def turn(timeout: float = 0.0) -> bool:
            worked = run_once(0.0)
            if next(turns) == 2:
                turned.set()
            return worked

        worker.run_once = turn  # type: ignore[method-assign]
        assert turned.wait(60)
        assert app.query("counts").get("a") == 1
        app.resume()
        assert next(changes).value == 2


def test_a_paused_worker_soon_notices_the_end_of_the_pause(log: Log, options: dict[str, Any]) -> None:
    worker = Worker(counting(), log, **options)
    waits: list[float] = []
    poll = worker.member.poll

    def waited(limit: int, timeout: float, *more: Any) -> Any:
        waits.append(timeout)
        return poll(limit, 0.0, *more)

    worker.member.poll = waited  # type: ignore[method-assign, assignment]
    for worker.paused in (False, True, False):
        while worker.run_once(60.0):
            pass
    worker.close()
    assert [wait for wait in waits if wait] == [60.0, 0.01, 60.0]


def test_threads_are_added_and_removed_during_processing(url: str, log: Log, options: dict[str, Any]) -> None:
    keys = [str(number) for number in range(50)]
    with host(counting(), url, **options) as app:
        app.ready(PATIENCE)
        counts = app.query("counts", wait=PATIENCE)
        for round, workers in enumerate([2, 3, 1], 1):
            send(log, *keys)
            app.scale(workers)
            app.ready(PATIENCE)
            assert (app.workers, len(app._thread_engine.workers)) == (workers, workers)
            until(lambda: sorted(len(owned) for owned in log.groups()["counting"].members.values()) == shares(workers))  # noqa: B023
            until(lambda: {counts.get(key) for key in keys} == {round})  # noqa: B023
        with pytest.raises(HostError, match="an app cannot have 0 workers"):
            app.scale(0)
    assert sorted(outputs(log)) == sorted((key, count) for key in keys for count in (1, 2, 3))
    assert [thread.name for thread in threading.enumerate() if thread.name == "streamtopo worker"] == []


def shares(workers: int) -> list[int]:
    """A log with topics of three partitions."""
    return {1: [3], 2: [1, 2], 3: [1, 1, 1]}[workers]


def test_all_threads_are_replaced_when_one_fails(url: str, log: Log, options: dict[str, Any]) -> None:
    failures: list[BaseException] = []

    def once(value: str) -> str:
        if value == "bad" and not failures:
            raise ValueError(value)
        return value

    def replace(error: BaseException) -> str:
        failures.append(error)
        return "replace"

    with host(counting(once), url, on_uncaught=replace, **options) as app:
        app.scale(3)
        app.ready(PATIENCE)
        send(log, *"abcdef", value="bad")
        changes = app.consume("out", from_beginning=True)
        assert sorted(next(changes).key for _ in range(6)) == list("abcdef")
        app.ready(PATIENCE)
        assert len(app._thread_engine.workers) == 3
    assert len(failures) == 1
    assert sorted(outputs(log)) == [(key, 1) for key in "abcdef"]


def test_metrics_can_be_read_from_any_thread(url: str, log: Log, options: dict[str, Any]) -> None:
    done = threading.Event()
    encoded: list[Any] = []

    def ask(app: App) -> None:
        try:
            before = 0
            while not done.is_set():
                (worker,) = app._thread_engine.workers
                encoded.append(before <= (before := worker.metrics().records))
        except BaseException as error:
            encoded.append(error)

    with host(counting(), url, **options) as app:
        app.ready(PATIENCE)
        asking = threading.Thread(target=ask, args=(app,), daemon=True)
        asking.start()
        for _ in range(3):
            with host(counting(), url, **options) as other:
                other.ready(PATIENCE)
                send(log, *(str(number) for number in range(100)))
        until(lambda: sum(1 for _ in outputs(log)) == 300)
        done.set()
        asking.join(60)
    assert set(encoded) == {True}


# -- failures


def fragile(value: str) -> str:
    if value == "bad":
        raise ValueError(value)
    return value


def test_a_failing_step_ends_the_engine_but_not_the_service(url: str, log: Log, options: dict[str, Any]) -> None:
    encoded: list[BaseException] = []
    with host(counting(fragile), url, on_uncaught=encoded.append, **options) as app:
        app.ready(PATIENCE)
        app.produce("in", "good", key="a").result(60)
        app.produce("in", "bad", key="a").result(60)
        assert [record.value for record in app.consume("out", from_beginning=True)] in ([], [1])
        assert app.state is AppState.ERROR
        assert isinstance(app.error, StepError)
        assert encoded == [app.error]
        with pytest.raises(HostError, match="the engine failed: step"):
            app.ready()
    assert list(outputs(log)) == [("a", 1)]


async def test_a_failure_is_raised_by_ready_on_a_loop(url: str, log: Log, options: dict[str, Any]) -> None:
    send(log, "a", value="bad")
    async with host(counting(fragile), url, **options) as app:
        assert [record async for record in app.consume("out")] == []
        with pytest.raises(HostError, match="the engine failed: step"):
            await app.ready(PATIENCE)


def test_a_failed_worker_is_replaced(url: str, log: Log, options: dict[str, Any]) -> None:
    failures: list[BaseException] = []

    def twice(value: str) -> str:
        if value == "bad" and len(failures) < 3:
            raise ValueError(value)
        return value

    def replace(error: BaseException) -> str:
        failures.append(error)
        return "replace"

    send(log, "a", value="bad")
    with host(counting(twice), url, on_uncaught=replace, **options) as app:
        record = next(app.consume("out", from_beginning=True))
        assert (record.key, record.value, len(failures)) == ("a", 1, 3)
    assert list(outputs(log)) == [("a", 1)]


def test_a_failure_can_shut_down_the_process(url: str, log: Log, options: dict[str, Any]) -> None:
    got = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: got.set())
    try:
        send(log, "a", value="bad")
        with host(counting(fragile), url, on_uncaught=lambda error: "shut down", **options):
            assert got.wait(60)
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda error: "what", "'what' is not a valid Uncaught"),
        (lambda error: 1 / 0, "ZeroDivisionError"),
        (lambda error: sys.exit(), "SystemExit"),
    ],
)
def test_a_failing_callback_does_not_hide_the_engines_error(
    answer: Any, message: str, url: str, log: Log, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    send(log, "a", value="bad")
    with host(counting(fragile), url, on_uncaught=answer, **options) as app:
        assert list(app.consume("out")) == []
        assert app.state is AppState.ERROR
        assert isinstance(app.error, StepError)
    assert "on_uncaught failed" in caplog.text
    assert message in caplog.text


def test_closing_has_a_deadline(url: str, log: Log, options: dict[str, Any]) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slow(value: str) -> str:
        entered.set()
        go_on.wait(60)
        return value

    send(log, "a")
    with host(counting(slow), url, **options) as app:
        assert entered.wait(60)
        assert not app.close("10ms")
        assert app.state is AppState.PENDING_SHUTDOWN
        go_on.set()
        assert app.close(PATIENCE)
    assert list(outputs(log)) == [("a", 1)]


UNFINISHED = """
import sys, time
from streamtopo import host
from tests.hosting.conftest import counting

entered = []

def slow(value):
    entered.append(value)
    time.sleep(0.3)
    return value

with host(counting(slow), sys.argv[1], state_dir=sys.argv[2], close_timeout=1):
    while not entered:
        time.sleep(0.001)
"""


def test_the_engine_ends_before_the_program(url: str, log: Log, options: dict[str, Any]) -> None:
    """The deadline has passed, but stopping the thread anywhere could abort the process."""
    send(log, "a")
    done = subprocess.run([sys.executable, "-c", UNFINISHED, url, options["state_dir"]], cwd=ROOT, check=False)
    assert (done.returncode, list(outputs(log))) == (0, [("a", 1)])


def test_closing_the_loop_does_not_block_the_engine(url: str, log: Log, options: dict[str, Any]) -> None:
    async def forget() -> Any:
        hosted = host(counting(), url, **options)
        app = await hosted.__aenter__()
        waiting = asyncio.ensure_future(app.ready(PATIENCE))
        await asyncio.sleep(0)
        waiting.cancel()
        return app

    app = asyncio.run(forget())
    send(log, "a")
    app._engine.stop()
    assert app._engine.join(60)
    assert app.state is AppState.NOT_RUNNING
    assert app._close_rest(True, deadline=0.0)


# -- nothing remains


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def without_hearts() -> bool:
    """Return whether all threads that mark a state directory as in use have ended."""
    return all(thread.name != "state locks" for thread in threading.enumerate())


def test_a_hundred_starts_leave_no_files_and_threads(tmp_path: Path) -> None:
    """Five at a time, each with its own log and state directory."""

    def cycle(number: int) -> None:
        folder = tmp_path / str(number % AT_ONCE)
        url = f"embedded:{folder / 'small'}?synchronous=normal"
        with host(counting(), url, state_dir=str(folder / "state"), create_topics=1) as app:
            app.ready(PATIENCE)

    def cycles(count: int) -> None:
        for first in range(0, count, AT_ONCE):
            list(pool.map(cycle, range(first, first + AT_ONCE)))
        until(without_hearts)
        gc.collect()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        cycles(10)
        threads, files, memory = threading.active_count(), len(os.listdir("/proc/self/fd")), _resident()
        cycles(90)
        assert threading.active_count() <= threads, threading.enumerate()
        assert len(os.listdir("/proc/self/fd")) <= files
        assert _resident() - memory < 30_000_000


async def test_a_cancelled_start_and_end_leave_no_threads(tmp_path: Path, options: dict[str, Any]) -> None:
    url = f"embedded:{tmp_path / 'small'}?synchronous=normal"
    hosted = host(counting(), url, create_topics=1, **options)
    async with hosted as app:
        await app.ready(PATIENCE)
    before = len(os.listdir("/proc/self/fd")) + 3
    for _ in range(5):
        starting = asyncio.create_task(hosted.__aenter__())
        await asyncio.sleep(0)
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
        app = await hosted.__aenter__()
        leaving = asyncio.create_task(hosted.__aexit__())
        await asyncio.sleep(0)
        leaving.cancel()
        with suppress(asyncio.CancelledError):
            await leaving
    until(lambda: not {"streamtopo engine", "streamtopo closing"} & {thread.name for thread in threading.enumerate()})
    until(without_hearts)
    assert len(os.listdir("/proc/self/fd")) <= before
