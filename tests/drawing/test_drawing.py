"""Drawings of topologies: every name is there, every character is safe, and nothing overlaps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import combinations
from xml.etree import ElementTree

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtopo.drawing import FORMATS
from streamtopo.drawing.formats.as_json import document
from streamtopo.drawing.formats.dot import quoted
from streamtopo.drawing.formats.mermaid import escaped
from streamtopo.drawing.graph import graph_of
from streamtopo.drawing.layout.block import Rect
from streamtopo.drawing.layout.layout import Picture, picture_of
from streamtopo.drawing.layout.sliding import ascending
from streamtopo.drawing.layout.words import columns, wrapped
from streamtopo.errors import TopologyError
from streamtopo.serdes import serde_of
from streamtopo.stores import StoreSpec
from streamtopo.topology import Topology
from streamtopo.topology.nodes import Repartition

COUNTS = "KSTREAM-AGGREGATE-STATE-STORE-0000000003"
NASTY = '<a href="x">\\N & `b` #quot; {c} | [d](e)\n]]> 日本語 \x01'
"""A text for patterns and for names of functions that choose topics, which can be any text."""


def store(name: str) -> StoreSpec:
    return StoreSpec(name, serde_of(str), serde_of(int))


def word_count() -> Topology:
    topology = Topology("word-count")
    topology.add_repartition(Repartition(f"{COUNTS}-repartition"))
    topology.add_source("lines-in", "lines", key=str, value=str)
    topology.add_processor("split", object, "lines-in").add_processor("by-word", object, "split")
    topology.add_sink("repartition-sink", f"{COUNTS}-repartition", "by-word")
    topology.add_source("repartition-source", f"{COUNTS}-repartition").add_processor(
        "count", object, "repartition-source"
    )
    topology.add_state_store(store(COUNTS), "count").add_sink("counts-out", "counts", "count")
    return topology


def join() -> Topology:
    topology = Topology("join").add_source("left", "clicks").add_source("right", "views")
    topology.add_processor("keep-left", object, "left").add_processor("keep-right", object, "right")
    topology.add_processor("this", object, "keep-left").add_processor("other", object, "keep-right")
    topology.add_state_store(store("lefts"), "keep-left", "other")
    topology.add_state_store(store("rights"), "keep-right", "this")
    return topology.add_sink("out", "joined", "this", "other")


def loop() -> Topology:
    topology = Topology("loop").add_source("in", "orders", "retries").add_processor("try", object, "in")
    topology.add_sink("again", "retries", "try").add_sink("back", "orders", "try").add_sink("done", "done", "try")
    topology.add_source("logs", re.compile('log"s-.*')).add_processor("twice", object, "logs", "logs")
    return topology.add_sink("chosen", lambda key, value, context: "x", "twice").add_sink("up", "retries", "twice")


def special_characters() -> Topology:
    topology = Topology("a" * 249).add_source("in", "t" * 249).add_source("all", re.compile(re.escape(NASTY)))
    topology.add_processor("p" * 249, object, "in").add_sink("out", Chooser(), "all", "p" * 249)
    topology.add_state_store(store("s" * 249), "p" * 249).add_store(store("unused"))
    return topology


class Chooser:
    """Chooses topics; a class can have any name."""

    def __call__(self, key: object, value: object, context: object) -> str:
        return "x"


Chooser.__qualname__ = NASTY


Make = Callable[[], Topology]
TOPOLOGIES = [word_count, join, loop, special_characters]


def overlap(a: Rect, b: Rect) -> bool:
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


def inside(a: Rect, b: Rect, slack: float = 0.001) -> bool:
    across = b.x - slack <= a.x and a.x + a.width <= b.x + b.width + slack
    return across and b.y - slack <= a.y and a.y + a.height <= b.y + b.height + slack


def assert_tidy(topology: Topology) -> None:
    graph = graph_of(topology)
    picture = picture_of(graph)
    rects = {shape.item.id: shape.rect for shape in picture.shapes}
    frames = {frame.number: frame.rect for frame in picture.frames}
    assert not [pair for pair in combinations(rects.values(), 2) if overlap(*pair)]
    assert not [pair for pair in combinations(frames.values(), 2) if overlap(*pair)]
    assert all(inside(rect, Rect(0, 0, picture.width, picture.height)) for rect in [*rects.values(), *frames.values()])
    for box in graph.boxes:
        assert all(inside(rects[item.id], frames[box.number]) for item in box.items)
    assert not [item for item in graph.outside for frame in frames.values() if overlap(rects[item.id], frame)]
    assert_visible(topology, picture)


def assert_visible(topology: Topology, picture: Picture) -> None:
    root = ElementTree.fromstring(FORMATS["svg"](topology))
    _, _, wide, high = map(float, root.attrib["viewBox"].split())
    [moved] = [group.attrib["transform"] for group in root if "transform" in group.attrib]
    x, y = map(float, re.findall(r"[-.\d]+", moved))
    assert x >= 0
    assert y >= 0
    assert x + picture.width <= wide
    assert y + picture.height <= high


def texts(svg: str) -> Iterator[str]:
    for element in ElementTree.fromstring(svg).iter():
        if element.tag.endswith(("title", "text")):
            yield "".join(element.itertext())


@pytest.mark.parametrize("make", TOPOLOGIES)
@pytest.mark.parametrize("form", FORMATS)
def test_the_same_topology_is_drawn_the_same(form: str, make: Make) -> None:
    assert FORMATS[form](make()) == FORMATS[form](make())


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("make", [word_count, join])
def test_every_name_is_in_every_format(form: str, make: Make) -> None:
    drawn, topology = FORMATS[form](make()), make()
    if form == "svg":
        drawn = "\n".join(texts(drawn))
    topics = [topic for source in topology.sources for topic in source.topics]
    names = [*topology.nodes, *topology.stores, *topics, *(str(sink.topic) for sink in topology.sinks)]
    assert [name for name in names if name not in drawn] == []


@pytest.mark.parametrize("form", FORMATS)
def test_a_topology_without_a_source_is_refused(form: str) -> None:
    with pytest.raises(TopologyError, match="no source"):
        FORMATS[form](Topology())


def test_text_is_what_describe_says() -> None:
    assert FORMATS["text"](word_count()) == word_count().describe()


@pytest.mark.parametrize("make", TOPOLOGIES)
def test_nothing_overlaps(make: Make) -> None:
    assert_tidy(make())


def test_a_topic_is_drawn_once() -> None:
    names = [item.name for item in graph_of(loop()).outside]
    assert names == ["orders", "retries", "done", 'log"s-.*', "loop.<locals>.<lambda>"]


def test_an_internal_topic_is_between_the_boxes() -> None:
    picture = picture_of(graph_of(word_count()))
    reader, writer = sorted((frame.rect for frame in picture.frames), key=lambda rect: -rect.y)
    [topic] = [shape.rect for shape in picture.shapes if shape.item.note == "internal"]
    assert writer.y + writer.height < topic.y
    assert topic.y + topic.height < reader.y


def test_a_chain_is_straight() -> None:
    rects = {shape.item.name: shape.rect for shape in picture_of(graph_of(word_count())).shapes}
    chain = [
        "lines",
        "lines-in",
        "split",
        "by-word",
        f"{COUNTS}-repartition",
        "count",
        "counts-out",
        "counts",
    ]
    middles = [rects[name].x + rects[name].width / 2 for name in chain]
    assert max(middles) - min(middles) < 1


def test_a_child_connected_twice_has_two_lines() -> None:
    routes = [route for route in picture_of(graph_of(loop())).routes if route.edge.times == 2]
    assert len({route.path for route in routes}) == 2
    assert '|"2 times"|' in FORMATS["mermaid"](loop())
    assert 'label="2 times"' in FORMATS["dot"](loop())


def test_svg_is_self_contained() -> None:
    svg = FORMATS["svg"](word_count())
    root = ElementTree.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == "Topology of word-count: 2 subtopologies, 1 store"
    assert "prefers-color-scheme: dark" in svg
    assert not re.search(r"<script|@import|href|url\((?!#)", svg)


def test_svg_has_its_colours_without_support_for_css_variables_and_media() -> None:
    """Programs show unknown colours as black: rsvg-convert, Inkscape and CairoSVG do not support variables."""
    style = ElementTree.fromstring(FORMATS["svg"](word_count())).findtext(".//{*}style")
    assert style
    light, _, rest = style.partition("@media (prefers-color-scheme: dark) {")
    dark, _, _ = rest.partition("} }")
    painted = re.compile(r"(?:fill|stroke): ([^;}]+)")
    assert {colour for colour in painted.findall(style) if not re.fullmatch("#[0-9a-f]{6}", colour)} == {"none"}
    assert painted.sub("", light).split() == painted.sub("", dark + "}").split()


def test_svg_keeps_text_within_its_shapes() -> None:
    for shape in picture_of(graph_of(special_characters())).shapes:
        assert max(map(columns, shape.lines)) * 6 < shape.rect.width
        assert len(shape.lines) * 12 < shape.rect.height


def test_svg_takes_any_text() -> None:
    assert any('<a href="x">\\N & `b` #quot;' in text for text in texts(FORMATS["svg"](special_characters())))


def test_mermaid_marks_internal_topics() -> None:
    lines = FORMATS["mermaid"](word_count()).splitlines()
    assert lines[0] == "flowchart TD"
    assert '  subgraph box0["Subtopology 0"]' in lines
    assert "  class topic1 internal" in lines
    assert "stroke-dasharray" in next(line for line in lines if "classDef internal" in line)
    assert "  node6 -.- store0" not in lines
    assert "  node5 -.- store0" in lines


def test_mermaid_escapes_all_special_characters() -> None:
    assert escaped('a"b#c`d') == "a#34;b#35;c#96;d"
    assert re.fullmatch(r"[A-Za-z0-9 ._,:/+#;-]+", escaped(NASTY))


def test_dot_quotes_all_special_characters() -> None:
    assert quoted('a"b\\c\nd&e') == '"a\\"b\\\\c\\nd&amp;e"'
    for line in FORMATS["dot"](special_characters()).splitlines():
        assert len(re.findall(r'(?<!\\)(?:\\\\)*"', line)) % 2 == 0


def test_json_is_the_document() -> None:
    read = orjson.loads(FORMATS["json"](word_count()))
    assert read == document(word_count())
    assert [part["number"] for part in read["subtopologies"]] == [0, 1]
    count = read["subtopologies"][1]["processors"][0]
    assert re.fullmatch(r"object, test_drawing.py:\d+", count.pop("code_place"))
    assert count == {
        "name": "count",
        "parents": ["repartition-source"],
        "children": ["counts-out"],
        "stores": [COUNTS],
    }
    assert read["stores"][0]["changelog"] == f"word-count-{COUNTS}-changelog"
    assert [topic["purpose"] for topic in read["internal_topics"]] == ["changelog", "repartition"]


@pytest.mark.parametrize("form", ["svg", "dot"])
def test_tooltips_have_the_place_of_a_step_in_the_program(form: str) -> None:
    drawn = FORMATS[form](Topology().add_source("in", "a").add_processor("choose", Chooser, "in"))
    assert re.search(r"processor choose: .*test_drawing\.py:\d+", drawn, re.S)
    assert re.search(r"source in: bytes keys, bytes values, test_drawing\.py:\d+", drawn)


def test_json_knows_patterns_and_chosen_topics() -> None:
    parts = document(loop())["subtopologies"]
    assert [source["pattern"] for part in parts for source in part["sources"]] == [None, 'log"s-.*']
    functions = [sink["topic_function"] for part in parts for sink in part["sinks"] if sink["topic"] is None]
    assert functions == ["loop.<locals>.<lambda>"]


def test_long_names_are_broken_after_separators() -> None:
    assert wrapped(f"{COUNTS}-repartition") == ("KSTREAM-AGGREGATE-STATE-", "STORE-0000000003-repartition")
    assert wrapped("short") == ("short",)
    assert max(map(len, wrapped("x" * 200))) <= 32


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(0.1, 10))))
def test_ascending_keeps_an_existing_order(targets: list[tuple[float, float]]) -> None:
    found = ascending(targets)
    assert found == sorted(found)
    assert ascending(sorted(targets)) == [target for target, _ in sorted(targets)]


NAMES = st.from_regex(r"[a-zA-Z0-9._-]{0,40}", fullmatch=True)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Any graph of up to 12 nodes and 3 stores, with topics that are read, written, or both."""
    topology = Topology("random").add_source("source", "topic0")
    for number in range(3):
        topology.add_store(store(f"store{number}"))
    for number in range(draw(st.integers(1, 11))):
        name = f"{number}{draw(NAMES)}"
        parents = [node for node in topology.nodes if node not in {sink.name for sink in topology.sinks}]
        chosen = draw(st.lists(st.sampled_from(parents), min_size=1, max_size=3))
        match draw(st.sampled_from(["source", "processor", "processor", "sink"])):
            case "source":
                pattern = re.compile(re.escape(f"{number}{NASTY}"))
                topology.add_source(name, pattern if draw(st.booleans()) else f"topic{number + 1}")
            case "processor":
                topology.add_processor(name, object, *chosen)
                topology.connect(name, *draw(st.sets(st.sampled_from(list(topology.stores)), max_size=2)))
            case _:
                topology.add_sink(name, f"topic{draw(st.integers(0, 12))}", *chosen)
    return topology


@settings(max_examples=80, deadline=None)
@given(topologies())
def test_nothing_overlaps_in_any_graph(topology: Topology) -> None:
    assert_tidy(topology)
