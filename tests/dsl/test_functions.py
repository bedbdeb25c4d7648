"""A function that cannot be called as a method of the language calls it is refused when the topology is described."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from inspect import getmembers, signature
from operator import itemgetter
from typing import Any

import pytest

from streamtopo import KStream, KTable, Processor, StreamsBuilder, Timestamp, Topology, Windows, key_value_store
from streamtopo.dsl import builder, cogrouped, grouped, grouped_table, kstream, ktable, windows
from streamtopo.errors import TopologyError
from streamtopo.testing import Driver

CLASSES = [
    builder.StreamsBuilder,
    kstream.KStream,
    ktable.KTable,
    grouped.KGroupedStream,
    grouped_table.KGroupedTable,
    cogrouped.CogroupedKStream,
    cogrouped.TimeWindowedCogroupedKStream,
    cogrouped.SessionWindowedCogroupedKStream,
    windows.TimeWindowedKStream,
    windows.SessionWindowedKStream,
    Topology,
]
KEY_VALUE, ROW = "(key, value)", "(key, value, row)"


def stream() -> KStream:
    return StreamsBuilder("app").stream("in", key=str, value=str)


def two(join: Callable[[KStream, KStream], object]) -> None:
    made = StreamsBuilder("app")
    join(made.stream("one", key=str, value=str), made.stream("two", key=str, value=str))


def tables(join: Callable[[KTable, KTable], object]) -> None:
    made = StreamsBuilder("app")
    join(made.table("one", key=str, value=str), made.table("two", key=str, value=str))


def table() -> KTable:
    return stream().to_table()


def grouped_stream() -> grouped.KGroupedStream:
    return stream().group_by_key()


def grouped_rows() -> grouped_table.KGroupedTable:
    return table().group_by(lambda key, value: (value, key))


def in_windows() -> windows.TimeWindowedKStream:
    return grouped_stream().windowed_by(Windows.tumbling("1s"))


def in_sessions() -> windows.SessionWindowedKStream:
    return grouped_stream().windowed_by(Windows.session("1s"))


def cogroup() -> cogrouped.CogroupedKStream:
    return grouped_stream().cogroup(lambda key, value, row: row)


def add(key: object, value: object, row: object) -> object:
    return row


def reduce(row: object, value: object) -> object:
    return row


def join_global(function: Any, key: Any = lambda key, value: key) -> None:
    made = StreamsBuilder("app")
    made.stream("in", key=str, value=str).join(made.global_table("all", key=str, value=str), key, function)


FUNCTIONS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "StreamsBuilder.stream timestamp": (KEY_VALUE, lambda f: StreamsBuilder("app").stream("in", timestamp=f)),
    "StreamsBuilder.table timestamp": (KEY_VALUE, lambda f: StreamsBuilder("app").table("in", timestamp=Timestamp(f))),
    "StreamsBuilder.global_table timestamp": (
        KEY_VALUE,
        lambda f: StreamsBuilder("app").global_table("in", timestamp=f),
    ),
    "StreamsBuilder.add_global_store timestamp": (
        KEY_VALUE,
        lambda f: StreamsBuilder("app").add_global_store(key_value_store("s"), "in", Processor, timestamp=f),
    ),
    "StreamsBuilder.add_global_store supplier": (
        "()",
        lambda f: StreamsBuilder("app").add_global_store(key_value_store("s"), "in", f),
    ),
    "KStream.map function": (KEY_VALUE, lambda f: stream().map(f)),
    "KStream.map_values function": ("(value)", lambda f: stream().map_values(f)),
    "KStream.map_values function with_key": (KEY_VALUE, lambda f: stream().map_values(f, with_key=True)),
    "KStream.select_key function": (KEY_VALUE, lambda f: stream().select_key(f)),
    "KStream.filter predicate": (KEY_VALUE, lambda f: stream().filter(f)),
    "KStream.filter_not predicate": (KEY_VALUE, lambda f: stream().filter_not(f)),
    "KStream.peek function": (KEY_VALUE, lambda f: stream().peek(f)),
    "KStream.flat_map function": (KEY_VALUE, lambda f: stream().flat_map(f)),
    "KStream.flat_map_values function": ("(value)", lambda f: stream().flat_map_values(f)),
    "KStream.flat_map_values function with_key": (KEY_VALUE, lambda f: stream().flat_map_values(f, with_key=True)),
    "KStream.map_values_async function": ("(value)", lambda f: stream().map_values_async(f)),
    "KStream.for_each_async function": (KEY_VALUE, lambda f: stream().for_each_async(f)),
    "KStream.map_batch function": ("(keys, values)", lambda f: stream().map_batch(f)),
    "KStream.map_values_batch function": ("(values)", lambda f: stream().map_values_batch(f)),
    "KStream.split branches": (KEY_VALUE, lambda f: stream().split([f])),
    "KStream.join functions": ("(value, other)", lambda f: two(lambda a, b: a.join(b, f, within="1s"))),
    "KStream.join functions with_key": (
        "(key, value, other)",
        lambda f: two(lambda a, b: a.join(b, f, within="1s", with_key=True)),
    ),
    "KStream.join functions with a table": ("(value, other)", lambda f: two(lambda a, b: a.join(b.to_table(), f))),
    "KStream.join functions with a global table": ("(value, other)", join_global),
    "KStream.join functions that give the key": (KEY_VALUE, lambda f: join_global(lambda value, other: value, f)),
    "KStream.left_join functions": ("(value, other)", lambda f: two(lambda a, b: a.left_join(b, f, within="1s"))),
    "KStream.outer_join joiner": ("(value, other)", lambda f: two(lambda a, b: a.outer_join(b, f, within="1s"))),
    "KStream.group_by function": (KEY_VALUE, lambda f: stream().group_by(f)),
    "KStream.repartition partitioner": ("(topic, key, value, count)", lambda f: stream().repartition(partitioner=f)),
    "KStream.deduplicate by": (KEY_VALUE, lambda f: stream().deduplicate("1s", by=f)),
    "KStream.to topic": ("(key, value, context)", lambda f: stream().to(f)),
    "KStream.to partitioner": ("(topic, key, value, count)", lambda f: stream().to("out", partitioner=f)),
    "KStream.for_each function": (KEY_VALUE, lambda f: stream().for_each(f)),
    "KStream.process supplier": ("()", lambda f: stream().process(f)),
    "KStream.process_values supplier": ("()", lambda f: stream().process_values(f)),
    "KTable.to_stream function": (KEY_VALUE, lambda f: table().to_stream(f)),
    "KTable.filter predicate": (KEY_VALUE, lambda f: table().filter(f)),
    "KTable.filter_not predicate": (KEY_VALUE, lambda f: table().filter_not(f)),
    "KTable.map_values function": ("(value)", lambda f: table().map_values(f)),
    "KTable.map_values function with_key": (KEY_VALUE, lambda f: table().map_values(f, with_key=True)),
    "KTable.transform_values transformer": (KEY_VALUE, lambda f: table().transform_values(f)),
    "KTable.group_by function": (KEY_VALUE, lambda f: table().group_by(f)),
    "KTable.join joiner": ("(value, other)", lambda f: tables(lambda a, b: a.join(b, f))),
    "KTable.join foreign_key": ("(value)", lambda f: tables(lambda a, b: a.join(b, reduce, foreign_key=f))),
    "KTable.join foreign_key with_key": (
        KEY_VALUE,
        lambda f: tables(lambda a, b: a.join(b, reduce, foreign_key=f, with_key=True)),
    ),
    "KTable.left_join joiner": ("(value, other)", lambda f: tables(lambda a, b: a.left_join(b, f))),
    "KTable.left_join foreign_key": ("(value)", lambda f: tables(lambda a, b: a.left_join(b, reduce, foreign_key=f))),
    "KTable.outer_join joiner": ("(value, other)", lambda f: tables(lambda a, b: a.outer_join(b, f))),
    "KGroupedStream.reduce reducer": ("(row, value)", lambda f: grouped_stream().reduce(f)),
    "KGroupedStream.aggregate init": ("()", lambda f: grouped_stream().aggregate(f, add)),
    "KGroupedStream.aggregate adder": (ROW, lambda f: grouped_stream().aggregate(list, f)),
    "KGroupedStream.cogroup adder": (ROW, lambda f: grouped_stream().cogroup(f)),
    "KGroupedTable.reduce adder": ("(row, value)", lambda f: grouped_rows().reduce(f, reduce)),
    "KGroupedTable.reduce subtractor": ("(row, value)", lambda f: grouped_rows().reduce(reduce, f)),
    "KGroupedTable.aggregate init": ("()", lambda f: grouped_rows().aggregate(f, add, add)),
    "KGroupedTable.aggregate adder": (ROW, lambda f: grouped_rows().aggregate(list, f, add)),
    "KGroupedTable.aggregate subtractor": (ROW, lambda f: grouped_rows().aggregate(list, add, f)),
    "CogroupedKStream.cogroup adder": (
        ROW,
        lambda f: two(lambda a, b: a.group_by_key().cogroup(add).cogroup(b.group_by_key(), f)),
    ),
    "CogroupedKStream.aggregate init": ("()", lambda f: cogroup().aggregate(f)),
    "TimeWindowedCogroupedKStream.aggregate init": (
        "()",
        lambda f: cogroup().windowed_by(Windows.tumbling("1s")).aggregate(f),
    ),
    "SessionWindowedCogroupedKStream.aggregate init": (
        "()",
        lambda f: cogroup().windowed_by(Windows.session("1s")).aggregate(f, add),
    ),
    "SessionWindowedCogroupedKStream.aggregate merger": (
        "(key, row, session)",
        lambda f: cogroup().windowed_by(Windows.session("1s")).aggregate(list, f),
    ),
    "TimeWindowedKStream.reduce reducer": ("(row, value)", lambda f: in_windows().reduce(f)),
    "TimeWindowedKStream.aggregate init": ("()", lambda f: in_windows().aggregate(f, add)),
    "TimeWindowedKStream.aggregate adder": (ROW, lambda f: in_windows().aggregate(list, f)),
    "SessionWindowedKStream.reduce reducer": ("(row, value)", lambda f: in_sessions().reduce(f)),
    "SessionWindowedKStream.aggregate init": ("()", lambda f: in_sessions().aggregate(f, add, add)),
    "SessionWindowedKStream.aggregate adder": (ROW, lambda f: in_sessions().aggregate(list, f, add)),
    "SessionWindowedKStream.aggregate merger": (
        "(key, row, session)",
        lambda f: in_sessions().aggregate(list, add, f),
    ),
    "Topology.add_source timestamp": (KEY_VALUE, lambda f: Topology().add_source("s", "in", timestamp=f)),
    "Topology.add_processor supplier": ("()", lambda f: Topology().add_source("s", "in").add_processor("p", f, "s")),
    "Topology.add_global_processor supplier": (
        "()",
        lambda f: Topology().add_global_processor(key_value_store("s"), "in", "p", f),
    ),
    "Topology.add_global_processor timestamp": (
        KEY_VALUE,
        lambda f: Topology().add_global_processor(key_value_store("s"), "in", "p", object, timestamp=f),
    ),
    "Topology.add_sink topic": (
        "(key, value, context)",
        lambda f: Topology().add_source("s", "in").add_sink("k", f, "s"),
    ),
    "Topology.add_sink partitioner": (
        "(topic, key, value, count)",
        lambda f: Topology().add_source("s", "in").add_sink("k", "out", "s", partitioner=f),
    ),
}
"""By class, method and parameter: how it is called, and a topology with it."""
ALSO = {"timestamp": 3, "transformer": 0}
"""Other numbers of arguments that a function with this name may take: those of its other form."""
AWAITED = {"KStream.map_values_async function", "KStream.for_each_async function"}
each_function = pytest.mark.parametrize("name", FUNCTIONS)


def function_parameters() -> Iterator[str]:
    for owner in CLASSES:
        for name, method in getmembers(owner, callable):
            for parameter in [] if name.startswith("_") else signature(method).parameters.values():
                if re.search("Callable|Initializer|Transform|Partitioner|TimestampLike", str(parameter.annotation)):
                    yield f"{owner.__name__}.{name} {parameter.name}"


def test_every_parameter_that_is_a_function_is_checked_here() -> None:
    internal = {"KStream.repartitioned partitioner"}
    assert set(function_parameters()) - internal == {" ".join(name.split()[:2]) for name in FUNCTIONS}


def arguments(name: str) -> list[str]:
    return re.findall(r"\w+", FUNCTIONS[name][0])


def taking(*parameters: str) -> Any:
    return eval(f"lambda {', '.join(parameters)}: None")


@each_function
def test_the_right_number_of_parameters(name: str) -> None:
    describe = FUNCTIONS[name][1]
    describe(taking(*arguments(name)))
    describe(taking(*arguments(name), "more=1"))
    describe(taking("*all"))
    describe(partial(taking("first", *arguments(name)), 1))


@each_function
def test_a_wrong_number_of_parameters(name: str) -> None:
    form, describe = FUNCTIONS[name]
    right = {len(arguments(name)), ALSO.get(name.split()[1])}
    for number in set(range(6)) - right:
        with pytest.raises(TopologyError) as found:
            describe(taking(*"abcdef"[:number]))
        message = str(found.value)
        assert re.search(rf"(calls|awaits) \w+{re.escape(form)}, but `lambda.*` \(<string>:1\) takes \w+; \w+", message)
        assert re.match(rf'(\w+\.)?{name.split()[0].rpartition(".")[2]} |(source|sink|processor) "', message)
        assert message.endswith((f"write lambda {form[1:-1]}: …".replace(" :", ":"), "with_key=True"))


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - AWAITED))
def test_a_coroutine_function_where_a_plain_one_is_called(name: str) -> None:
    async def look_up(*all: object) -> None: ...

    with pytest.raises(TopologyError, match=r"but `look_up\(\*all\)` \(test_functions.py:\d+\) is a coroutine"):
        FUNCTIONS[name][1](look_up)


class Scaled:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, value: str) -> str:
        return value * self.factor

    def of(self, value: str) -> str:
        return value * self.factor


class Unknown:
    """It has no signature, as many functions in C."""

    __signature__ = "none"

    def __call__(self, *all: str) -> str:
        return "".join(all)


@pytest.mark.parametrize(
    "function", [str.upper, str, int, max, itemgetter(0), print, Unknown(), Scaled, Scaled(2), Scaled(2).of]
)
def test_all_kinds_of_functions_of_one_value(function: Any) -> None:
    stream().map_values(function)
    stream().flat_map_values(function)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (Scaled.of, "`Scaled.of(self, value)` (test_functions.py:LINE) takes two; pass with_key=True"),
        (divmod, "`divmod(x, y)` (test_functions.py:LINE) takes two; pass with_key=True"),
        (partial(Scaled, 2), "`Scaled()` (test_functions.py:LINE) takes none; write lambda value: Scaled(…)"),
        (lambda a, *, rate: a, "`lambda a, rate=…` (test_functions.py:LINE) also needs rate=…; write lambda value: …"),
        (
            lambda a, b, c=1, *d: a,
            "`lambda a, b, c=…, *d` (test_functions.py:LINE) takes two or more; pass with_key=True",
        ),
        (
            lambda a, b, c, d=1: a,
            "`lambda a, b, c, d=…` (test_functions.py:LINE) takes three to four; write lambda value: …",
        ),
        (add, "`add(key, value, row)` (test_functions.py:LINE) takes three; give it the parameters (value)"),
        ("upper", "map_values calls function(value), but was given 'upper'; give a function or a class"),
    ],
)
def test_what_the_error_says(function: Any, said: str) -> None:
    with pytest.raises(TopologyError, match=re.escape(said).replace("LINE", r"\d+") + "$"):
        stream().map_values(function)


def test_with_key_that_is_not_needed() -> None:
    with pytest.raises(TopologyError, match=r"calls function\(key, value\), .* takes one; leave out with_key=True"):
        table().map_values(lambda value: value, with_key=True)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("describe", "said"),
    [
        (lambda f: stream().map_values(f), "use map_values_async$"),
        (lambda f: stream().for_each(f), "use for_each_async$"),
        (lambda f: table().map_values(f), "use map_values_async before this, and its result here$"),
    ],
)
def test_what_to_use_for_a_coroutine_function(describe: Callable[[Any], object], said: str) -> None:
    class Client:
        async def __call__(self, *all: object) -> None: ...

    with pytest.raises(TopologyError, match=said):
        describe(Client())


# -- adders that forget to return the row


def test_an_adder_that_returns_nothing_is_refused() -> None:
    def collect(key: str, value: str, row: list[str]) -> None:
        row.append(value)

    said = r"`collect\(key, value, row\)` \(test_functions.py:\d+\) can only return None, .*; end it with: return row"
    for describe in (grouped_stream().aggregate, in_windows().aggregate, lambda _, f: grouped_stream().cogroup(f)):
        with pytest.raises(TopologyError, match=said):
            describe(list, collect)


def adder(*lines: str) -> Any:
    """A function with this body."""
    names: dict[str, Any] = {}
    exec("\n    ".join(["def add(key, value, row):", *lines]), names)
    return names["add"]


@pytest.mark.parametrize(
    "lines",
    [
        ["row.append(value)"],
        ["..."],
        ["row.append(value)", "return"],
        ["for one in value:", "    row.append(one)"],
        ["try:", "    row.append(value)", "except ValueError:", "    pass"],
        ["with value:", "    row.append(value)"],
    ],
)
def test_functions_that_can_only_return_none(lines: list[str]) -> None:
    with pytest.raises(TopologyError, match="can only return None"):
        grouped_stream().aggregate(list, adder(*lines))
    grouped_rows().aggregate(list, add, adder(*lines))  # subtracting the last row may mean to delete it


@pytest.mark.parametrize(
    "lines",
    [
        ["return row"],
        ["return row or None"],
        ["return row and None"],
        ["return row.x if row else None"],
        ["if value:", "    return row"],
        ["raise NotImplementedError"],
        ["try:", "    return row", "finally:", "    print()"],
        ["try:", "    return row.x", "except AttributeError:", "    return None"],
        ["with value:", "    return row"],
    ],
)
def test_functions_that_may_return_something(lines: list[str]) -> None:
    grouped_stream().aggregate(list, adder(*lines))


def test_none_that_is_written_out_and_functions_in_c() -> None:
    grouped_stream().aggregate(list, lambda key, value, row: None)
    grouped_stream().aggregate(list, print)


@pytest.mark.parametrize(
    "describe",
    [
        lambda: grouped_stream().aggregate(list, lambda key, value, row: row.append(value), value=list),
        lambda: in_windows().aggregate(list, lambda key, value, row: row.append(value), value=list),
        lambda: in_sessions().aggregate(
            list, lambda key, value, row: row.append(value), lambda key, row, session: row, value=list
        ),
    ],
)
def test_a_row_that_is_changed_in_place_and_not_returned_is_reported_once(
    describe: Callable[[], KTable], caplog: pytest.LogCaptureFixture
) -> None:
    driver = Driver(describe().graph.topology, partitions=2)
    for key in ("a", "b", "c", "d"):
        driver.send("in", "x", key=key)
    (said,) = (record.getMessage() for record in caplog.records)
    assert re.match(r"`lambda key, value, row` \(\S+:\d+\) changed the row in place and returned None", said)


def test_a_row_that_is_deleted_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    rows = grouped_stream().aggregate(list, lambda key, value, row: None, value=list)
    Driver(rows.graph.topology).send("in", "a", key="k")
    assert caplog.records == []
