"""Records in order in each partition, ways in which they arrive, and what operators must make of them: plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple

from streamtopo import (
    KStream,
    KTable,
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    Topology,
    Windows,
    key_value_store,
)
from streamtopo.dsl.tables.suppress import until_window_closes

USERS = "abcde"
STEP, SECOND = 100, 1000
END = 100_000
LAST = (END, 2 * END, 3 * END)
"""The times of records that close what is open: windows of results of windows of results need all of them."""


class Event(NamedTuple):
    """A record, and when it appears in its partition."""

    topic: str
    partition: int | None
    """None: that of its user, which is its key."""
    time: int
    user: str
    at: int

    @property
    def value(self) -> list[Any]:
        return [self.user, self.time]


def events(random: Random, topic: str, partitions: int, way: str, count: int = 60) -> list[Event]:
    """In the order of time: each partition gets its records in that order, too."""
    found: list[Event] = []
    arrived = [0] * partitions
    for number in range(count):
        partition = random.randrange(partitions)
        if way == "silent" and number > count // 4:
            partition = random.randrange(max(1, partitions - 1))
        time = number * STEP
        arrived[partition] = max(arrived[partition], arrival(random, time, way))
        found.append(Event(topic, partition, time, random.choice(USERS), arrived[partition]))
    return found


def arrival(random: Random, time: int, way: str) -> int:
    """When a record of this time appears."""
    return _ARRIVALS[way](random, time)


_ARRIVALS: dict[str, Callable[[Random, int], int]] = {
    "backlog": lambda random, time: 0,
    "live": lambda random, time: time + random.randrange(40),
    "bulk": lambda random, time: (time // 3000 + 1) * 3000 + random.randrange(5),
    "silent": lambda random, time: time,
}
WAYS = tuple(_ARRIVALS)


def keyed_events(events: list[Event]) -> list[Event]:
    """The same with their users as keys; all partitions together get them in the order of time."""
    arrived = accumulate([event.at for event in events], max)
    return [event._replace(topic="keyed", partition=None, at=at) for event, at in zip(events, arrived, strict=True)]


def last_events(topics: Iterable[str], partitions: int, time: int) -> list[Event]:
    """They move stream time of every task to this time. Of the partitions with keys, only one gets them."""
    unkeyed = [Event(topic, n, time, user, 0) for topic in topics for n in range(partitions) for user in USERS]
    return [event for event in unkeyed if event.topic != "keyed"] + [
        Event(topic, None, time, USERS[0], 0) for topic in topics if topic == "keyed"
    ]


Expected = Callable[[list[Event], list[Event]], Counter[Any]]


class Program(NamedTuple):
    """What is done with the stream, or two of them; and what must come out, from the events of both."""

    build: Callable[[StreamsBuilder, KStream], None]
    expected: Expected
    topics: tuple[str, ...] = ("in",)
    several: bool = False
    """Whether there must be several partitions: with one, as in Kafka Streams, time only goes on with a task's rows."""


def passing_topics(random: Random, stream: KStream) -> KStream:
    """The stream, after up to two repartition topics with their own keys and numbers of partitions."""
    for _ in range(random.choice([0, 0, 1, 2])):
        keys = random.choice([3, 5])
        stream = stream.select_key(partial(_some_key, keys), key=int)
        stream = stream.repartition(partitions=random.choice([None, 1, 2, 3, 5]))
    return stream


def _some_key(keys: int, _: Any, value: list[Any]) -> int:
    return int(value[1]) // STEP % keys


def by_user(stream: KStream) -> Any:
    return stream.group_by(lambda _, value: value[0], key=str)


def keyed_by_user(stream: KStream) -> KStream:
    return stream.select_key(lambda _, value: value[0], key=str)


def windows_out(table: KTable) -> None:
    stream = table.to_stream()
    stream.map(lambda window, value: (window.key, [window.start, window.end, value]), key=str, value=list).to("out")


def tumbling(emit: str = "on_update") -> Callable[[StreamsBuilder, KStream], None]:
    def build(builder: StreamsBuilder, stream: KStream) -> None:
        windows_out(by_user(stream).windowed_by(Windows.tumbling("1s"), emit=emit).count(name="counts"))

    return build


def hopping(builder: StreamsBuilder, stream: KStream) -> None:
    windows_out(by_user(stream).windowed_by(Windows.hopping("1s", every="500ms")).count(name="counts"))


def suppressed(builder: StreamsBuilder, stream: KStream) -> None:
    counts = by_user(stream).windowed_by(Windows.tumbling("1s")).count(name="counts")
    windows_out(counts.suppress(until_window_closes()))


def closed_twice(builder: StreamsBuilder, stream: KStream) -> None:
    """Windows of results that come when other windows close: they have older times than the records that close them."""
    closed = by_user(stream).windowed_by(Windows.tumbling("300ms", grace="2s"), emit="on_close").count(name="first")
    again = closed.to_stream().map(lambda window, count: (window.key, count), key=str, value=int)
    totals = again.group_by(lambda user, _: user, key=str).windowed_by(Windows.tumbling("1500ms"), emit="on_close")
    windows_out(totals.reduce(lambda one, other: one + other, name="second"))


def closed_three_times(builder: StreamsBuilder, stream: KStream) -> None:
    """Twice in one task, and again behind a repartition topic."""
    closed = by_user(stream).windowed_by(Windows.tumbling("300ms", grace="1s"), emit="on_close").count(name="first")
    again = closed.to_stream().group_by_key().windowed_by(Windows.tumbling("600ms"), emit="on_close")
    sums = again.reduce(lambda one, other: one + other, name="second").to_stream()
    users = sums.map(lambda window, count: (window.key.key, count), key=str, value=int).group_by_key()
    totals = users.windowed_by(Windows.tumbling("1200ms"), emit="on_close")
    windows_out(totals.reduce(lambda one, other: one + other, name="third"))


def sessions_closed(builder: StreamsBuilder, stream: KStream) -> None:
    """How many sessions of several records ended in each window: few are, so little is written."""
    closed = by_user(stream).windowed_by(Windows.session("300ms"), emit="on_close").count(name="first")
    users = (
        closed.to_stream()
        .filter(lambda window, count: count > 1 or window.end >= END)
        .map(lambda window, _: (window.key, 1), key=str, value=int)
    )
    windows_out(users.group_by_key().windowed_by(Windows.tumbling("1s"), emit="on_close").count(name="second"))


def sliding_closed(builder: StreamsBuilder, stream: KStream) -> None:
    """How many sliding windows with several records have their last record in each window."""
    closed = by_user(stream).windowed_by(Windows.sliding("200ms"), emit="on_close").count(name="first")
    users = (
        closed.to_stream()
        .filter(lambda window, count: count > 2 or window.end >= END)
        .map(lambda window, _: (window.key, 1), key=str, value=int)
    )
    windows_out(
        users.group_by_key().windowed_by(Windows.tumbling("1s", grace="200ms"), emit="on_close").count(name="second")
    )


def is_rare(value: list[Any]) -> bool:
    return bool(value[1] % 700 == 0 and value[1] < END)


def rare(stream: KStream) -> KStream:
    """Few of the records, and none of the last ones: other tasks get those."""
    return stream.filter(lambda _, value: is_rare(value))


def rare_closed(builder: StreamsBuilder, stream: KStream) -> None:
    windows_out(by_user(rare(stream)).windowed_by(Windows.tumbling("1s"), emit="on_close").count(name="counts"))


def rare_suppressed(builder: StreamsBuilder, stream: KStream) -> None:
    counts = by_user(rare(stream)).windowed_by(Windows.tumbling("1s")).count(name="counts")
    windows_out(counts.suppress(until_window_closes()))


def rare_closed_twice(builder: StreamsBuilder, stream: KStream) -> None:
    """In one task: the second windows close by what is known of the results of the first."""
    closed = (
        by_user(rare(stream)).windowed_by(Windows.tumbling("300ms", grace="1s"), emit="on_close").count(name="first")
    )
    users = closed.to_stream().map(lambda window, count: (window.key, count), key=str, value=int)
    totals = users.group_by_key().windowed_by(Windows.tumbling("1500ms"), emit="on_close")
    windows_out(totals.reduce(lambda one, other: one + other, name="second"))


def rare_sessions(builder: StreamsBuilder, stream: KStream) -> None:
    windows_out(by_user(rare(stream)).windowed_by(Windows.session("300ms"), emit="on_close").count(name="counts"))


def rare_both_ways(builder: StreamsBuilder, stream: KStream) -> None:
    """Each record twice: as it was read, and from a repartition topic."""
    direct = builder.stream("keyed", key=str, value=list)
    both = rare(direct).merge(keyed_by_user(rare(direct)).repartition())
    windows_out(both.group_by_key().windowed_by(Windows.tumbling("1s"), emit="on_close").count(name="counts"))


def sessions(emit: str) -> Callable[[StreamsBuilder, KStream], None]:
    def build(builder: StreamsBuilder, stream: KStream) -> None:
        windows_out(by_user(stream).windowed_by(Windows.session("300ms"), emit=emit).count(name="counts"))

    return build


def cogrouped(builder: StreamsBuilder, stream: KStream) -> None:
    other = builder.stream("other", value=list)
    groups = (
        by_user(stream).cogroup(lambda _, value, row: row + 1).cogroup(by_user(other), lambda _, value, row: row + 1)
    )
    windows_out(groups.windowed_by(Windows.tumbling("1s")).aggregate(lambda: 0, value=int, name="counts"))


def outer_join(builder: StreamsBuilder, stream: KStream) -> None:
    other = keyed_by_user(builder.stream("other", value=list))
    keyed_by_user(stream).outer_join(
        other, lambda one, two: [one and one[1], two and two[1]], within="200ms", value=list
    ).to("out")


def outer_join_direct(builder: StreamsBuilder, stream: KStream) -> None:
    other = builder.stream("keyed", key=str, value=list)
    keyed_by_user(stream).outer_join(
        other, lambda one, two: [one and one[1], two and two[1]], within="200ms", value=list
    ).to("out")


def rare_alone(builder: StreamsBuilder, stream: KStream) -> None:
    """Few records have a partner, and they wait for the end of its time."""
    other = keyed_by_user(rare(builder.stream("other", value=list)))
    keyed_by_user(rare(stream)).outer_join(
        other, lambda one, two: [one and one[1], two and two[1]], within="200ms", value=list
    ).to("out")


def deduplicated(builder: StreamsBuilder, stream: KStream) -> None:
    repartitioned = keyed_by_user(stream).repartition()
    repartitioned.deduplicate("2s", by=lambda _, value: value[1], id=int).to("out")


def as_of(builder: StreamsBuilder, stream: KStream) -> None:
    """Each record with the row that its user had at its time; rows change every second."""
    rows = builder.table("rows", key=str, value=int, name="rows", versioned="1h")
    keyed_by_user(stream).join(rows, lambda value, row: [*value, row], grace="500ms").to("out")


def as_of_short_history(builder: StreamsBuilder, stream: KStream) -> None:
    """Rows that are far ahead must not end the history of those that are looked for."""
    rows = builder.table("rows", key=str, value=int, name="rows", versioned="1s")
    keyed_by_user(stream).join(rows, lambda value, row: [*value, row], grace="500ms").to("out")


def rare_as_of(builder: StreamsBuilder, stream: KStream) -> None:
    """Both from repartition topics; the last records never reach the join."""
    rows = builder.stream("rows", key=str, value=int).select_key(lambda user, _: user, key=str).repartition()
    table = rows.to_table(name="rows", versioned="1s")
    keyed_by_user(rare(stream)).join(table, lambda value, row: [*value, row], grace="500ms").to("out")


def by_foreign_key(builder: StreamsBuilder, stream: KStream) -> None:
    names = builder.table("names", key=str, value=str, name="names")
    table = stream.select_key(lambda _, value: value[1], key=int).to_table(name="orders")
    joined = table.join(names, lambda value, name: [name, value[1]], foreign_key=lambda value: value[0], value=list)
    windows_out(by_user(joined.to_stream()).windowed_by(Windows.tumbling("1s")).count(name="counts"))


class InOrder(Processor):
    """Forwards each record with True if no call on stream time was made for a later time before."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.called = context.get_state_store("called")
        context.schedule("500ms", "stream_time", lambda time: self.called.put("time", time))

    def process(self, record: Record) -> None:
        in_order = record.timestamp >= (self.called.get("time") or 0)
        self.context.forward(record.with_value([*record.value, in_order]))


def rare_punctuated(builder: StreamsBuilder, stream: KStream) -> None:
    store = key_value_store("called", key=str, value=int)
    keyed_by_user(rare(stream)).repartition().process(InOrder, stores=[store], value=list).to("out")


def punctuated(builder: StreamsBuilder, stream: KStream) -> None:
    store = key_value_store("called", key=str, value=int)
    keyed_by_user(stream).repartition().process(InOrder, stores=[store], value=list).to("out")


# -- what must come out


def spans(length: int, every: int | None = None) -> Callable[[list[Event], list[Event]], Counter[Any]]:
    """The number of records in each window."""

    def expected(ours: list[Event], others: list[Event]) -> Counter[Any]:
        found = Counter[Any]()
        for event in [*ours, *others]:
            for start in range(
                event.time // (every or length) * (every or length), event.time - length, -(every or length)
            ):
                if start >= 0:
                    found[event.user, start, start + length] += 1
        return found

    return expected


def gaps(ours: list[Event], others: list[Event]) -> Counter[Any]:
    """The number of records in each session."""
    found = Counter[Any]()
    for user in USERS:
        session: list[int] = []
        for event in ours:
            if event.user != user:
                continue
            if session and event.time - session[-1] > 300:
                found[user, session[0], session[-1]] = len(session)
                session = []
            session.append(event.time)
        if session:
            found[user, session[0], session[-1]] = len(session)
    return found


def ends_of_sessions(ours: list[Event], others: list[Event]) -> Counter[Any]:
    """The number of sessions of several records that end in each window."""
    found = Counter[Any]()
    for (user, _, end), count in gaps(ours, others).items():
        if count > 1:
            found[user, end // SECOND * SECOND, end // SECOND * SECOND + SECOND] += 1
    return found


def ends_of_sliding(ours: list[Event], others: list[Event]) -> Counter[Any]:
    """The number of sliding windows with more than two records, by the second of their last record."""
    found = Counter[Any]()
    for user in USERS:
        times = [event.time for event in ours if event.user == user]
        starts = {max(0, time - 200) for time in times} | {time + 1 for time in times}
        for start in starts:
            inside = [time for time in times if start <= time <= start + 200]
            if len(inside) > 2:
                second = inside[-1] // SECOND * SECOND
                found[user, second, second + SECOND] += 1
    return found


def pairs(ours: list[Event], others: list[Event]) -> Counter[Any]:
    found = Counter[Any]()
    for one in ours:
        near: list[int | None] = [
            other.time for other in others if other.user == one.user and abs(other.time - one.time) <= 200
        ]
        found.update((one.user, one.time, time) for time in near or [None])
    for other in others:
        if not any(one.user == other.user and abs(other.time - one.time) <= 200 for one in ours):
            found[other.user, None, other.time] += 1
    return found


def each(*more: Any) -> Callable[[list[Event], list[Event]], Counter[Any]]:
    """Each record once."""
    return lambda ours, others: Counter((event.user, *event.value, *more) for event in ours)


def with_seconds(ours: list[Event], others: list[Event]) -> Counter[Any]:
    return Counter((event.user, *event.value, event.time // SECOND) for event in ours)


def of_rare(expected: Expected, times: int = 1) -> Expected:
    """The same for the few records."""

    def of_few(ours: list[Event], others: list[Event]) -> Counter[Any]:
        few = [[event for event in events if is_rare(event.value)] for events in (ours, others)]
        return Counter({row: count * times for row, count in expected(*few).items()})

    return of_few


PROGRAMS: dict[str, Program] = {
    "tumbling": Program(tumbling(), spans(SECOND)),
    "on close": Program(tumbling("on_close"), spans(SECOND)),
    "hopping": Program(hopping, spans(SECOND, 500)),
    "suppressed": Program(suppressed, spans(SECOND)),
    "closed twice": Program(closed_twice, spans(1500)),
    "closed three times": Program(closed_three_times, spans(1200)),
    "sessions closed": Program(sessions_closed, ends_of_sessions),
    "sliding closed": Program(sliding_closed, ends_of_sliding),
    "sessions": Program(sessions("on_update"), gaps),
    "sessions on close": Program(sessions("on_close"), gaps),
    "cogrouped": Program(cogrouped, spans(SECOND), ("in", "other")),
    "outer join": Program(outer_join, pairs, ("in", "other")),
    "deduplicated": Program(deduplicated, each()),
    "as of": Program(as_of, with_seconds, ("in", "rows")),
    "foreign key": Program(by_foreign_key, spans(SECOND), ("in", "names")),
    "punctuated": Program(punctuated, each(True)),
    "outer join direct": Program(outer_join_direct, pairs, ("in", "keyed")),
    "as of a short history": Program(as_of_short_history, with_seconds, ("in", "rows"), several=True),
    "rare closed": Program(rare_closed, of_rare(spans(SECOND)), several=True),
    "rare suppressed": Program(rare_suppressed, of_rare(spans(SECOND)), several=True),
    "rare closed twice": Program(rare_closed_twice, of_rare(spans(1500)), several=True),
    "rare both ways": Program(rare_both_ways, of_rare(spans(SECOND), 2), ("keyed",), several=True),
    "rare sessions": Program(rare_sessions, of_rare(gaps), several=True),
    "rare punctuated": Program(rare_punctuated, of_rare(each(True)), several=True),
    "rare alone": Program(rare_alone, of_rare(pairs), ("in", "other"), several=True),
    "rare as of": Program(rare_as_of, of_rare(with_seconds), ("in", "rows"), several=True),
}
ONCE = {
    "on close",
    "suppressed",
    "sessions on close",
    "closed twice",
    "closed three times",
    "sessions closed",
    "sliding closed",
    "rare closed",
    "rare suppressed",
    "rare closed twice",
    "rare sessions",
    "rare both ways",
}
"""Each window comes once."""
ONE_BY_ONE = {
    "outer join",
    "outer join direct",
    "rare alone",
    "as of",
    "as of a short history",
    "rare as of",
    "rare punctuated",
    "deduplicated",
    "punctuated",
}
"""Each record comes out, with its time, and not the windows that it is in."""
UPDATED_TWICE = {"foreign key"}
"""With a cache, a row of the other table is found by orders before it is forwarded, and then updates them again."""


def topology_of(name: str, random: Random) -> Topology:
    builder = StreamsBuilder("timed")
    PROGRAMS[name].build(builder, passing_topics(random, builder.stream("in", value=list)))
    return builder.build()


def outcome(name: str, out: list[tuple[Any, Any]]) -> Counter[Any]:
    """What came out, without what the last events made."""
    if name in ONE_BY_ONE:
        return Counter((key, *value) for key, value in out if not set(LAST).intersection(value))
    last: dict[Any, int] = {}
    times = Counter[Any]()
    for key, (start, end, count) in out:
        if end < END:
            times[key, start, end] += 1
            last[key, start, end] = count
    assert name not in ONCE or set(times.values()) <= {1}, f"windows that came several times: {times.most_common(3)}"
    return Counter({window: count for window, count in last.items() if count is not None})
