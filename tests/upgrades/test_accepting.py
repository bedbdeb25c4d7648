"""--accept-changes: what no longer fits is deleted, and nothing else; and stores that changed places are found."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamtopo import Processor, ProcessorContext, Record, StreamsBuilder, Topology, key_value_store
from streamtopo.engine.compatibility import accepted_changes
from streamtopo.engine.compatibility.fingerprint import Fingerprint, note_of, unfinished
from streamtopo.errors import FingerprintError, LogError
from streamtopo.logs.embedded import EmbeddedLog
from tests.upgrades.dying import DIED, both, counting, summing
from tests.upgrades.versions import Home, Row, built, catch_up, shown

TEN: list[Row] = [("a", "1", number) for number in range(10)]
ONE: Row = ("a", "1", 99)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home", ("in", "other", "out"))
    yield home
    home.log.close()


@pytest.mark.parametrize(
    ("before", "after", "first"), [(int, str, "1"), (str, int, "1"), (int, float, "1.0"), (float, int, "1")]
)
def test_a_store_of_another_type_starts_empty_and_the_others_continue(
    home: Home, before: type, after: type, first: str, caplog: pytest.LogCaptureFixture
) -> None:
    home.put("in", *TEN)
    home.run(both(summing(before), counting))
    home.put("in", ONE)
    changed = both(summing(after), counting)
    with pytest.raises(
        FingerprintError, match=r"(?s)store sum: .*--accept-changes to delete the state of these stores"
    ):
        home.run(changed)
    assert home.run(changed, accept_changes=True) == [("a", first), ("a", "11")]
    assert "deleted, because changes are accepted: the state of store sum" in caplog.text
    home.put("in", ONE)
    assert home.run(changed, accept_changes=True)[1] == ("a", "12")


def test_a_store_that_was_removed_is_empty_when_it_returns(home: Home) -> None:
    home.put("in", *TEN)
    home.run(both(summing(int), counting))
    home.put("in", ONE)
    assert home.run(both(counting), accept_changes=True) == [("a", "11")]
    home.put("in", ONE)
    assert home.run(both(summing(int), counting)) == [("a", "1"), ("a", "12")]


class Counting(Processor):
    def init(self, context: ProcessorContext) -> None:
        self.context, self.seen = context, context.get_state_store("seen")

    def process(self, record: Record) -> None:
        self.seen.put(record.key, (self.seen.get(record.key) or 0) + 1)
        self.context.forward(record.with_value(str(self.seen.get(record.key))))


def remembering() -> Callable[[StreamsBuilder], None]:
    def describe(builder: StreamsBuilder) -> None:
        store = key_value_store("seen", key=str, value=int, logged=False)
        builder.stream("in", key=str, value=str).process(Counting, stores=[store]).to("out", value=str)

    return describe


def test_a_removed_store_without_a_changelog_is_empty_too_when_it_returns(home: Home) -> None:
    home.put("in", *TEN)
    assert home.run(both(remembering()))[-1] == ("a", "10")
    home.put("in", ONE)
    assert home.run(both(remembering()))[-1] == ("a", "11")
    home.run(both(counting), accept_changes=True)
    home.put("in", ONE)
    home.run(both(remembering()), accept_changes=True)
    assert home.written()[-1] == ("a", "1")
    home.put("in", ONE)
    assert home.run(both(remembering())) == [("a", "2")]


def test_nothing_is_deleted_while_another_worker_is_alive(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepted_changes, "_PATIENCE", 0.0)
    home.put("in", *TEN)
    worker = home.start(both(summing(int)))
    catch_up(worker)
    with pytest.raises(LogError, match='group "up" has 1 member alive'):
        home.start(both(summing(str)), accept_changes=True)
    home.put("in", ONE)
    catch_up(worker)
    worker.close()
    assert home.written()[-1] == ("a", "11")


class Overtaken(EmbeddedLog):
    """While one start checks for live workers, another one starts, accepts the changes, works and ends."""

    other: Callable[[], object] | None = None

    def group(self, name: str) -> Any:
        found, other, self.other = super().group(name), self.other, None
        if other is not None:
            other()
        return found


def test_topics_recreated_by_another_start_are_not_deleted(home: Home) -> None:
    home.put("in", *TEN)
    home.run(both(summing(int)))
    home.put("in", ONE)
    log = Overtaken(home.path / "log")
    log.other = lambda: home.run(both(summing(str)), accept_changes=True)
    Home(home.path, (), log).run(both(summing(str)), accept_changes=True)
    log.close()
    home.put("in", ONE)
    assert home.run(both(summing(str))) == [("a", "11")]


ROOT = Path(__file__).parents[2]
STEPS = ["note", "delete", "deleted", "created"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("then", ["the same", "the old one"])
def test_a_kill_at_any_step_of_accepting_changes(home: Home, step: str, then: str) -> None:
    """Accepted changes are deleted completely, whichever version starts next, with or without accepting changes."""
    old, new = both(summing(int), counting), both(summing(str), counting)
    home.put("in", *TEN)
    home.run(old)
    home.log.close()
    died = subprocess.run([sys.executable, "-m", "tests.upgrades.dying", home.path, step], cwd=ROOT, check=False)
    assert died.returncode == DIED
    home.log = EmbeddedLog(home.path / "log")
    home.put("in", ONE)
    if then == "the same" or step == "created":
        assert home.run(new, accept_changes=step == "note") == [("a", "1"), ("a", "11")]
    else:
        assert home.run(old) == [("a", "11" if step == "note" else "1"), ("a", "11")]
    assert Fingerprint.read(home.log.note(note_of(old))).deleting == {}


def test_an_unfinished_reset_is_not_accepted(home: Home) -> None:
    home.run(both(counting))
    note = note_of(both(counting))
    home.log.write_note(note, unfinished(home.log.note(note)))
    with pytest.raises(FingerprintError, match="run streamtopo reset again"):
        home.run(both(counting), accept_changes=True)


# -- names with numbers


def named(name: str, topic: str, group: Callable[[Any, Any], Any]) -> Callable[[StreamsBuilder], None]:
    def describe(builder: StreamsBuilder) -> None:
        table = builder.stream(topic, key=str, value=str).group_by(group, key=str).count()
        table.to_stream().map_values(lambda count: f"{name} {count}", value=str).to("out")

    return describe


def by_value(key: str, value: str) -> str:
    return value


def by_length(key: str, value: str) -> str:
    return str(len(value))


def starting(length: int) -> Callable[[str, str], str]:
    return lambda key, value: value[:length]


SWAPS = [
    ((by_value, "in"), (by_value, "other")),
    ((by_value, "in"), (by_length, "in")),
    ((lambda key, value: value[0], "in"), (lambda key, value: value[-1], "in")),
    ((lambda key, value: value[1:], "in"), (lambda key, value: value[2:], "in")),
    ((starting(1), "in"), (starting(2), "in")),
]


@pytest.mark.parametrize(("one", "two"), SWAPS)
def test_stores_that_changed_places_are_found(home: Home, one: Any, two: Any) -> None:
    first, second = (named(name, topic, group) for name, (group, topic) in zip("12", (one, two), strict=True))
    home.put("in", *TEN)
    home.put("other", *TEN[:3])
    home.run(both(first, second))
    with pytest.raises(
        FingerprintError, match="generated names depend on the order of the lines in a program"
    ) as refused:
        home.run(both(second, first))
    assert str(refused.value).count("  store KSTREAM-AGGREGATE-STATE-STORE-") == 2
    assert str(refused.value).count("  topic up-KSTREAM-AGGREGATE-STATE-STORE-") == 2
    home.put("in", ONE)
    assert home.run(both(first, second))[0][1] == "1 11"


def test_a_store_whose_number_changed_is_named_with_its_new_name(home: Home) -> None:
    home.put("in", *TEN)
    home.run(both(named("1", "in", by_value)))
    with pytest.raises(
        FingerprintError, match=r"-0{9}2: .* -> gone, and store KSTREAM-\S* is now what it was: generated"
    ):
        home.run(both(counting, named("1", "in", by_value)))


@pytest.mark.parametrize("edited", [by_length, lambda key, value: value.upper(), starting(2)])
def test_a_function_edited_in_place_is_refused(home: Home, edited: Any) -> None:
    home.put("in", *TEN)
    home.run(both(named("1", "in", by_value), named("2", "in", starting(1))))
    home.put("in", ONE)
    assert len(home.run(both(named("1", "in", edited), named("2", "in", starting(1))))) == 2


def test_a_store_fed_by_one_more_topic(home: Home) -> None:
    def describe(*topics: str) -> Topology:
        return built(lambda builder: shown(builder.stream(*topics, key=str, value=str).group_by_key().count()))

    home.put("in", *TEN)
    home.run(describe("in"))
    home.put("other", ONE)
    assert home.run(describe("in", "other")) == [("a", "11")]
    with pytest.raises(FingerprintError, match="was made from in, and is made from other now"):
        home.run(describe("other"))
