"""Cases sent in batches: which ones can be, where they are cut in two, and what Kafka Streams answered."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from streamtopo import Topology
from streamtopo.topology.nodes import ProcessorNode
from tests.conformance.runner import Case, Entry, Row, Run, row_differences, rows_of


class Answer(NamedTuple):
    """What Kafka Streams gave for a batch; an error if it could not be asked."""

    rows: list[Row]
    error: str | None = None


Answers = dict[tuple[str, int], Answer]
"""By the case's id and the position of the cut."""


def records(case: Case) -> list[Entry]:
    """Return the case's records as one list, or an empty list if the case does more than send records."""
    params, inputs = case["params"], case["inputs"]
    if params.get("describe") or any("topic" not in entry and "batch" not in entry for entry in inputs):
        return []
    if any("expect_error" in entry for entry in inputs):
        return []
    return [record for entry in inputs for record in entry.get("batch", [entry])]


def parts(sent: list[Entry], cut: int) -> list[list[Entry]]:
    return [part for part in (sent[:cut], sent[cut:]) if part]


def answers_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-batched.json")


def load(folder: Path, cases: Iterable[Case]) -> Answers:
    path = answers_of(folder)
    found = json.loads(path.read_text()) if path.exists() else []
    recorded = {entry["id"]: entry["answers"] for entry in found}
    return {
        (case["id"], cut): _answer(case, answer)
        for case in cases
        for answer in recorded.get(case["id"], ())
        for cut in answer["cuts"]
    }


def _answer(case: Case, answer: dict[str, Any]) -> Answer:
    if "error" in answer:
        return Answer([], answer["error"])
    if "rows" in answer:
        return Answer([Row(*row) for row in answer["rows"]])
    return Answer(rows_of(case["expected"]))


def answer_for(case: Case, cut: int, answers: Answers) -> Answer:
    """Return the recorded answer. If there is none, records of one topic must give the same rows in any batches."""
    if (case["id"], cut) in answers:
        return answers[case["id"], cut]
    if len({record["topic"] for record in records(case)}) == 1:
        return Answer(rows_of(case["expected"]))
    return Answer([], "not recorded")


def differences(case: Case, cut: int, answer: Answer, *, ordered: bool, chunk: int = 10_000) -> list[str]:
    run = Run(case, chunk=chunk)
    got = [row for part in parts(records(case), cut) for row in run.feed({"batch": part})]
    found = row_differences(answer.rows, got, ordered=ordered and case["order"] == "strict")
    return [f"batches cut at {cut}, chunks of {chunk}\n{difference}" for difference in found]


# -- where the order is not specified


class Comparison(Enum):
    """How a batch's rows are compared, given what Kafka Streams promises for it."""

    ROWS = "batches compared"
    SETS = "batches compared as sets: equal timestamps in different topics"
    NOT_TIED = "batches not compared: equal timestamps in different topics meet in a store or a processor"
    NOT_FED = "batches not compared: a task reads a topic of its own application together with other topics"
    NOT_KNOWN = "batches not compared: no answer from Kafka Streams' test driver, or none recorded"


COMPARED = (Comparison.ROWS, Comparison.SETS)


def comparison(topology: Topology, case: Case, cut: int, answer: Answer) -> Comparison:
    if answer.error is not None:
        return Comparison.NOT_KNOWN
    if _feeds_itself(topology):
        return Comparison.NOT_FED
    if not any(_tied(topology, part) for part in parts(records(case), cut)):
        return Comparison.ROWS
    return Comparison.NOT_TIED if _remembers(topology) else Comparison.SETS


def _remembers(topology: Topology) -> bool:
    """Return whether a row can depend on the rows before it."""
    users = (node.operator.records for node in topology.nodes.values() if isinstance(node, ProcessorNode))
    return bool(topology.stores) or any(users)


def _feeds_itself(topology: Topology) -> bool:
    """Return whether a task reads an internal topic and another one: then time does not define the order of records."""
    written = {sink.topic for sink in topology.sinks}
    for part in topology.subtopologies():
        read = {topic for source in part.sources for topic in source.topics}
        if len(read) > 1 and (read & written or any(map(callable, written))):
            return True
    return False


def _tied(topology: Topology, part: list[Entry]) -> bool:
    """Return whether a task ever has to choose between two topics whose next records have the same timestamp."""
    tasks: dict[int, dict[str, deque[int]]] = defaultdict(lambda: defaultdict(deque))
    for record in part:
        for task in topology.subtopologies():
            if any(source.reads(record["topic"]) for source in task.sources):
                tasks[task.number][record["topic"]].append(record["ts"])
    return any(_tied_heads(list(queues.values())) for queues in tasks.values())


def _tied_heads(queues: list[deque[int]]) -> bool:
    while len(queues) > 1:
        heads = [queue[0] for queue in queues]
        least = min(heads)
        if heads.count(least) > 1:
            return True
        queues[heads.index(least)].popleft()
        queues = [queue for queue in queues if queue]
    return False
