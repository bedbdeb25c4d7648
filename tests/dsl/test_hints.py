"""A method that does not exist: the error names what to write, and that works."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest

import streamtopo
from streamtopo import StreamsBuilder, Windows, aggregators, hints
from streamtopo.dsl.tables.suppress import until_time_limit, until_window_closes
from streamtopo.testing import Driver

builder = StreamsBuilder("hints")
stream = builder.stream("in", key=str, value=int)
grouped = stream.group_by_key()
table = grouped.count(name="counts")
minutes = grouped.windowed_by(Windows.tumbling("1m"))
windowed = minutes.count(name="minutes")
sessions = grouped.windowed_by(Windows.session("1m")).count(name="sessions")
driver = Driver(builder)

TRIED: list[tuple[Any, str, str]] = [
    (stream, "mapValues", "in Python it is called map_values"),
    (stream, "groupByKey", "in Python it is called group_by_key"),
    (stream, "foreach", "it is called for_each"),
    (stream, "apply", "it is called map_values"),
    (stream, "sink", "it is called to"),
    (stream, "head", "it is called print"),
    (stream, "count", "group it first: .group_by_key().count(…)"),
    (stream, "windowedBy", "group it first: .group_by_key().windowed_by(…)"),
    (stream, "tumbling_window", 'use .group_by_key().windowed_by(Windows.tumbling("1m"))'),
    (stream, "hopping_window", 'use .group_by_key().windowed_by(Windows.hopping("1m", every="10s"))'),
    (stream, "session_window", 'use .group_by_key().windowed_by(Windows.session("30s"))'),
    (stream, "sum", "use .group_by_key().aggregate(sum(…)), with sum from streamtopo.aggregators"),
    (stream, "suppress", 'only tables have it: .group_by_key().count().suppress(until_time_limit("5s"))'),
    (stream, "value_counts", "group it first: .group_by(lambda key, value: value, key=…).count()"),
    (stream, "map_valeus", 'did you mean "map_values"?'),
    (table, "to", "use .to_stream().to(…)"),
    (table, "print", "use .to_stream().print(…)"),
    (table, "foreach", "use .to_stream().for_each(…)"),
    (table, "count", "group it first: .group_by(lambda key, value: (key, value)).count()"),
    (table, "toTable", "it is a table already"),
    (table, "get", "the rows of a table are read by queries: streamtopo query APP STORE KEY"),
    (grouped, "to", "call to before the records are grouped, or on the result: .count().to_stream().to(…)"),
    (grouped, "sliding_window", 'use .windowed_by(Windows.sliding("1m"))'),
    (minutes, "mean", "use .aggregate(mean(…)), with mean from streamtopo.aggregators"),
    (minutes, "suppress", "use the result: .count().suppress(until_window_closes())"),
    (minutes, "final", 'give windowed_by(…, emit="on_close")'),
    (builder, "globalTable", "in Python it is called global_table"),
    (builder, "run", "run it with Worker(builder).run(), or with streamtopo worker FILE"),
    (builder.build(), "start", "run it with Worker(topology).run(), or with streamtopo worker FILE"),
    (driver, "pipeInput", "it is called send"),
    (Windows.tumbling("1m"), "advanceBy", 'give it at once: Windows.hopping("1m", every="10s")'),
]


@pytest.mark.parametrize(("what", "name", "advice"), TRIED, ids=lambda one: one if isinstance(one, str) else "")
def test_a_name_that_does_not_exist_is_answered_with_the_right_one(what: Any, name: str, advice: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(what, name)
    assert str(raised.value).startswith(f'{type(what).__name__} has no "{name}"; {advice}')


@pytest.mark.parametrize(("what", "name", "advice"), TRIED, ids=lambda one: one if isinstance(one, str) else "")
def test_what_is_advised_exists(what: Any, name: str, advice: str) -> None:
    if called := re.search(r"it is called (\w+)$", advice):
        assert callable(getattr(what, called[1]))
    for chain in re.findall(r"(?:use|first:|it:|result:) (\..*?\))(?:,|;|$)", advice):
        for before, last in [chain.rsplit(".", 1)] if "(…)" in chain else []:
            arguments = "(aggregators.sum())" if last.startswith("aggregate") else ""
            assert eval(f"what{before}.{last.removesuffix('(…)').partition('(')[0]}{arguments}", scope(what))
        if "…" not in chain:
            assert eval(f"what{chain}", scope(what))


def scope(what: Any) -> dict[str, Any]:
    names = {"until_time_limit": until_time_limit, "until_window_closes": until_window_closes}
    return {"what": what, "Windows": Windows, "aggregators": aggregators} | names


def test_stores_of_windows_say_how_to_find_a_row() -> None:
    driver.send("in", 1, key="a", timestamp=0)
    with pytest.raises(AttributeError, match=r"the start of the window: .fetch\(key, time\)"):
        driver.store("minutes").get("a")
    with pytest.raises(AttributeError, match=r"a key has several sessions: .fetch\(key\) gives all"):
        driver.store("sessions").get("a")
    with pytest.raises(AttributeError, match=r'has no "fetchAll"; use .all\(\), or .range\(start, stop\)'):
        driver.store("counts").fetchAll("a")
    assert driver.store("minutes").fetch("a", 0) == 1
    assert [value for _, value in driver.store("sessions").fetch("a")] == [1]


def test_all_renamed_methods_exist_somewhere() -> None:
    known = {method for kind in hints._classes.values() for method in dir(kind)}
    assert [name for name in hints.RENAMED.values() if name not in known] == []
    assert [name for name in hints._AGGREGATORS if not hasattr(aggregators, name)] == []


def test_advice_is_for_classes_that_do_not_have_the_method() -> None:
    assert [
        (kind.__name__, name)
        for kind in hints._classes.values()
        for one in kind.__mro__
        for name in hints.ADVICE.get(one.__name__, ())
        if hasattr(kind, name)
    ] == []
    named = {one.__name__ for kind in hints._classes.values() for one in kind.__mro__}
    assert hints.ADVICE.keys() <= named


def test_private_and_special_names_get_no_hint() -> None:
    with pytest.raises(AttributeError, match=r'^KStream has no "_repr_png_"$'):
        getattr(stream, "_repr_" + "png_")


@pytest.mark.parametrize("name", ["of", "ofSizeWithNoGrace", "ofSizeAndGrace"])
def test_windows_of_kafka_streams_are_answered_with_the_kinds_of_windows(name: str) -> None:
    with pytest.raises(AttributeError, match=r'Windows has no "of.*"; write Windows.tumbling\("1m"\), .hopping'):
        getattr(Windows, name)
    with pytest.raises(AttributeError, match='Windows has no "tumblin"; did you mean "tumbling"'):
        Windows.tumblin  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", sorted(hints.NAMES))
def test_a_name_that_cannot_be_imported_is_answered_with_the_right_one(name: str) -> None:
    said = re.escape(f'streamtopo has no "{name}"; {hints.NAMES[name]}')
    with pytest.raises(ImportError, match=said):
        exec(f"from streamtopo import {name}")
    with pytest.raises(AttributeError, match=said):
        getattr(streamtopo, name)
    for module, right in re.findall(r"from ([\w.]+) import (\w+)", hints.NAMES[name]):
        assert hasattr(import_module(module), right)
    for kind in re.findall(r"Windows\.(\w+)", hints.NAMES[name]):
        assert hasattr(Windows, kind)
    for method in re.findall(r" \.(\w+)\(", hints.NAMES[name]):
        assert hasattr(stream, method)


def test_other_names_are_not_found_as_in_any_module() -> None:
    with pytest.raises(ImportError, match="cannot import name 'nothing' from 'streamtopo'"):
        exec("from streamtopo import nothing")
    with pytest.raises(
        ImportError, match=r'streamtopo.testing has no "TopologyTestDriver"; write from streamtopo.test'
    ):
        exec("from streamtopo.testing import TopologyTestDriver")
    assert not hasattr(streamtopo, "TimeWindows")
