"""Random edits are refused or give correct results, on a host with new rows, with older ones, or with none."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from streamtopo.errors import FingerprintError
from streamtopo.records import TopicPartition
from tests.upgrades.programs import Model, Part, Program, Sent, edited, programs, sent
from tests.upgrades.versions import Home

LABELS = "abcmn"
Written = dict[str, list[tuple[Any, Any]]]


@settings(max_examples=settings().max_examples // 4)
@given(st.data())
def test_random_edits(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        play(data, Path(folder))


def play(data: st.DataObject, folder: Path) -> None:
    program, models = data.draw(programs), dict[str, Model]()
    hosts = [Home(folder / "one", ["in", "out", *(f"out-{label}" for label in LABELS)])]
    check(hosts, program, data.draw(sent), models, {})
    hosts[0].log.close()
    shutil.copytree(folder / "one", folder / "earlier")
    hosts = [Home(folder / "one", ())]
    check(hosts, program, data.draw(sent), models, program.build()[1])
    hosts.append(hosts[0].copy(folder / "two"))
    shutil.rmtree(folder / "two" / "state")
    if data.draw(st.booleans()):
        shutil.copytree(folder / "earlier" / "state", folder / "two" / "state")
    first = program
    for version in range(2):
        before = program
        program = data.draw(st.one_of(edited(program), st.just(first))) if version else data.draw(edited(program))
        note(f"{before}\n-> {program}")
        check(hosts, program, data.draw(sent), models, before.build()[1])
    for host in hosts:
        host.log.close()


def check(hosts: list[Home], program: Program, rows: Sent, models: dict[str, Model], before: dict[str, Part]) -> None:
    """Run these records with this program on all hosts, and compare the outputs with the models of its stores."""
    outcomes = [outcome(host, program, rows) for host in hosts]
    assert outcomes[1:] == outcomes[:-1]
    written, refused = outcomes[0]
    for store, part in program.build()[1].items():
        model = models.setdefault(store, Model())
        if store not in before or f"store {store}:" in refused:
            model.rows = {}
        else:
            assert part.label == before[store].label or replace(part, label="") == replace(before[store], label="")
        if part.kind != "session":
            assert written[f"out-{part.label}"] == model.write(part, rows), part


def outcome(host: Home, program: Program, rows: Sent) -> tuple[Written, str]:
    """Return what is written, and why it was refused without `accept_changes`, if it was."""
    topology, _ = program.build()
    host.put("in", *rows)
    ends = {topic: host.log.end(TopicPartition(topic, 0)) for topic in host.log.topics() if topic.startswith("out-")}
    refused = ""
    try:
        host.run(topology, cache=0)
    except FingerprintError as error:
        refused = str(error)
        assert "  store " in refused
        host.run(topology, cache=0, accept_changes=True)
    return {topic: host.written(end, topic) for topic, end in ends.items()}, refused
