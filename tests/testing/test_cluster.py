"""The Cluster: whatever a seed decides, results are those of a model, and the seed gives the same run again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import pytest

from streamtopo import Processor, ProcessorContext, Record, StreamsBuilder, Windows, key_value_store
from streamtopo.errors import ConfigError, StreamtopoError
from streamtopo.testing import Cluster, Faults, seeds

WORDS = ("to", "be", "or", "not")


def counting() -> StreamsBuilder:
    builder = StreamsBuilder("counting")
    words = builder.stream("words", value=str).group_by(lambda _, word: word, key=str)
    words.count(name="counts").to_stream().to("counts")
    return builder


def some_words(seed: int, count: int = 60) -> list[str]:
    return Random(seed).choices(WORDS, k=count)


def counted(seed: int, **options: Any) -> Cluster:
    """Return a cluster that has counted a backlog, and words that came later."""
    cluster = Cluster(counting(), seed=seed, **options)
    for place, word in enumerate(some_words(seed)):
        cluster.send("words", word, partition=place % 4, at=max(0, place - 30) * 20)
    cluster.run()
    return cluster


@pytest.mark.parametrize("seed", seeds(40))
def test_each_word_is_counted_once(seed: int) -> None:
    with counted(seed) as cluster:
        model = Counter(some_words(seed))
        assert dict(cluster.store("counts").all()) == model
        written = cluster.read("counts")
        assert {word: [n for w, n in written if w == word] for word in model} == {
            word: [*range(1, count + 1)] for word, count in model.items()
        }


@pytest.mark.parametrize("seed", seeds(20))
def test_with_a_cache_the_last_counts_are_right(seed: int) -> None:
    with counted(seed, cache="1MB") as cluster:
        assert dict(cluster.store("counts").all()) == dict(cluster.read("counts")) == Counter(some_words(seed))


@pytest.mark.parametrize("emit", ["on_update", "on_close"])
@pytest.mark.parametrize("seed", seeds(20))
def test_windows_behind_one_partition_are_complete(seed: int, emit: Any) -> None:
    builder = StreamsBuilder("windows")
    words = builder.stream("words", value=str).group_by(lambda _, word: word, key=str)
    windows = words.windowed_by(Windows.tumbling("1s"), emit=emit).count()
    windows.to_stream(lambda window, _: f"{window.key} {window.start}", key=str).to("counts")
    with Cluster(builder, seed=seed) as cluster:
        sent = [(time, word) for time, word in enumerate(some_words(seed, 80))]
        sent += [(10_000, word) for word in WORDS * 8]  # closes the windows before, in all partitions that have some
        for time, word in sent:
            cluster.send("words", word, timestamp=time * 50, partition=0)
        cluster.run()
        cluster.advance(wall_clock_ms=1_000)  # longer than silent partitions hold time back
        model = Counter(f"{word} {time * 50 // 1000 * 1000}" for time, word in sent)
        if emit == "on_close":
            del model["to 500000"], model["be 500000"], model["or 500000"], model["not 500000"]
        assert dict(cluster.read("counts")) == model
        assert cluster.dropped == {}


@pytest.mark.parametrize("seed", seeds(20))
def test_what_is_in_time_in_its_partition_is_in_time_behind_a_repartition_topic(seed: int) -> None:
    builder = StreamsBuilder("in-time")
    words = builder.stream("words", value=str).group_by(lambda _, word: word, key=str)
    words.windowed_by(Windows.tumbling("1s")).count(name="counts")
    with Cluster(builder, seed=seed) as cluster:
        for place, word in enumerate(some_words(seed, 80)):
            cluster.send("words", word, timestamp=place * 100, partition=place % 4)
        cluster.run()
        assert cluster.dropped == {}


@pytest.mark.parametrize("seed", seeds(20))
def test_each_pair_is_joined_once(seed: int) -> None:
    builder = StreamsBuilder("pairs")
    left = builder.stream("left", key=str, value=int)
    right = builder.stream("right", key=str, value=int)
    left.join(right, lambda one, other: one * 1000 + other, within="1h").to("pairs")
    random = Random(seed)
    lefts, rights = [[(random.choice(WORDS), n) for n in range(15)] for _ in range(2)]
    with Cluster(builder, seed=seed) as cluster:
        for topic, rows in (("left", lefts), ("right", rights)):
            for key, number in rows:
                cluster.send(topic, number, key=key, at=random.choice((0, 500)))
        cluster.run()
        model = [(key, one * 1000 + two) for (key, one), (other, two) in product(lefts, rights) if key == other]
        assert sorted(cluster.read("pairs")) == sorted(model)


class Sums(Processor):
    """Forwards the sum of all numbers of the key."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.sums = context.get_state_store("sums")

    def process(self, record: Record) -> None:
        total = (self.sums.get(record.key) or 0) + record.value
        self.sums.put(record.key, total)
        self.context.forward(record.with_value(total))


class ForgetfulSums(Processor):
    """Makes the mistake of keeping the sums in an attribute."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.sums = Counter[str]()

    def process(self, record: Record) -> None:
        self.sums[record.key] += record.value
        self.context.forward(record.with_value(self.sums[record.key]))


def check_sums(seed: int, processor: Callable[[], Processor]) -> None:
    builder = StreamsBuilder("sums")
    sums = key_value_store("sums", key=str, value=int)
    builder.stream("numbers", key=str, value=int).process(processor, stores=[sums], value=int).to("sums")
    with Cluster(builder, seed=seed) as cluster:
        for number in range(60):
            cluster.send("numbers", number, key=WORDS[number % 4], at=number * 10)
        cluster.run()
        assert dict(cluster.read("sums")) == {word: sum(range(place, 60, 4)) for place, word in enumerate(WORDS)}


@pytest.mark.parametrize("seed", seeds(20))
def test_a_store_of_a_processor_survives(seed: int) -> None:
    check_sums(seed, Sums)


def test_state_in_an_attribute_is_found_and_the_failure_names_the_seed() -> None:
    def failure(seed: int) -> AssertionError | None:
        try:
            check_sums(seed, ForgetfulSums)
        except AssertionError as error:
            return error
        return None

    found = {seed: error for seed in range(20) if (error := failure(seed))}
    assert len(found) > 5
    seed, error = min(found.items())
    assert f"seed {seed}: Cluster(…, seed={seed}) does exactly the same again" in error.__notes__[0]
    assert "worker" in error.__notes__[0]
    assert failure(seed).__notes__ == error.__notes__  # type: ignore[union-attr]


# -- the seed

TRACE = """
from tests.testing.test_cluster import trace
print(trace(3))
"""


def trace(seed: int) -> tuple[Any, ...]:
    cluster = counted(seed)
    topics = {topic: cluster.records(topic) for topic in sorted(cluster.log.topics())}
    return topics, cluster.steps, cluster.now, cluster.events


def test_the_same_seed_gives_the_same_run_and_another_seed_another_one() -> None:
    assert trace(3) == trace(3)
    assert len({str(trace(seed)) for seed in range(10)}) == 10


def test_the_same_seed_gives_the_same_run_in_other_processes() -> None:
    """The order of sets differs between processes."""
    runs = {
        subprocess.run(
            [sys.executable, "-c", TRACE],
            env=os.environ | {"PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashes in ("1", "2")
    }
    assert runs == {f"{trace(3)}\n"}


def test_the_environment_chooses_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STREAMTOPO_SEED", "STREAMTOPO_SEEDS"):
        monkeypatch.delenv(name, raising=False)
    assert seeds(5) == range(5)
    monkeypatch.setenv("STREAMTOPO_SEEDS", "1000")
    assert seeds(5) == range(1000)
    monkeypatch.setenv("STREAMTOPO_SEED", "7")
    assert seeds(5) == range(7, 1007)
    monkeypatch.delenv("STREAMTOPO_SEEDS")
    assert seeds(5) == range(7, 8)


# -- what it accepts


def test_each_kind_of_fault_happens_alone() -> None:
    kinds = ("crash", "pause", "leave", "join", "evict", "lost_answer")
    for kind in kinds:
        faults = Faults(**(dict.fromkeys(kinds, 0.0) | {kind: 0.2}), lost_disk=1.0, most=5)  # type: ignore[arg-type]
        happened = [counted(seed, faults=faults) for seed in range(8)]
        assert any(cluster.events for cluster in happened), kind
        for seed, cluster in enumerate(happened):
            assert dict(cluster.store("counts").all()) == Counter(some_words(seed)), kind


def test_a_worker_that_ends_after_refused_commits_is_started_again() -> None:
    happened: set[str] = set()
    for seed in range(8):
        faults = Faults(lost_answer=0.6, most=200)
        with counted(seed, faults=faults, chunk=1, commit_interval=0, commit_pause=0) as cluster:
            happened.update(event.split(" worker ")[1][2:] for event in cluster.events)
            assert dict(cluster.store("counts").all()) == Counter(some_words(seed))
    assert "ended, because too many of its commits were refused" in happened


def test_without_faults_all_workers_stay() -> None:
    with counted(1, faults=False, workers=2) as cluster:
        assert cluster.events == []
        assert len(cluster.workers) == 2


@pytest.mark.parametrize("seed", seeds(30))
def test_rows_that_are_dropped_count_once(seed: int) -> None:
    """By operators, or when they are read."""
    builder = StreamsBuilder("dropping")
    rows = builder.stream("in", key=str, value=int, timestamp=lambda _, value: value)
    rows.group_by_key().count().to_stream().to("out")
    with Cluster(builder, seed=seed) as cluster:
        for number in range(60):
            key = None if number % 3 == 0 else "k"
            cluster.send("in", -1 if number % 5 == 0 else number, key=key, partition=number % 4, at=number // 20 * 200)
        cluster.run()
        assert cluster.dropped == {"negative timestamp": 12, "null key or value": 16}


def test_time_moves_as_the_test_says() -> None:
    builder = StreamsBuilder("clock")
    builder.stream("in", key=str, value=str).to("out")
    cluster = Cluster(builder, faults=False)
    cluster.send("in", "later", at=60_000)
    cluster.send("in", "now")
    cluster.run()
    assert [(record.value, record.timestamp) for record in cluster.records("out")] == [("now", 0), ("later", 60_000)]
    assert 60_000 <= cluster.now < 61_000
    cluster.advance(wall_clock_ms=3_600_000)
    assert cluster.now >= 3_660_000


def test_a_cluster_that_never_ends_says_what_is_left() -> None:
    cluster = Cluster(counting(), max_steps=3)
    cluster.send("words", "to", partition=1)
    with pytest.raises(StreamtopoError, match=r"is not done; it still has to process and commit 1 of .* \(max_steps="):
        cluster.run()


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match='no option "chunks"'):
        Cluster(counting(), chunks=3)
    with pytest.raises(ConfigError, match="at least one worker"):
        Cluster(counting(), workers=0)
    cluster = Cluster(counting())
    with pytest.raises(StreamtopoError, match='nothing reads topic "wrods"'):
        cluster.send("wrods", "x")
    with pytest.raises(StreamtopoError, match='there is no store "x"; this topology has counts'):
        cluster.store("x")
