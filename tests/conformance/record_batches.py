"""Asks Kafka Streams what the cases give when sent in batches: `python -m tests.conformance.record_batches ORACLE`."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conformance.batches import answers_of, parts, records
from tests.conformance.loading import CASES, load_cases
from tests.conformance.runner import Case, Entry, Row, rows_of, text_of, unlike

Answer = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("oracle", type=Path, help="a program that takes CASES.json and ANSWERS.json")
    parser.add_argument("--cases", type=Path, default=CASES, help="the folder of cases")
    options = parser.parse_args()
    cases = [case for case in load_cases(options.cases) if records(case)]
    answered = {answer["id"]: answer for answer in ask(options.oracle, [one for case in cases for one in cut(case)])}
    lines = [text_of({"id": case["id"], "answers": gather(case, answered)}) for case in cases]
    answers_of(options.cases).write_text("[\n" + ",\n".join(lines) + "\n]\n")


def cut(case: Case) -> Iterator[Case]:
    """The case at every cut, named by it. Cut at the end is the same as not cut."""
    sent = records(case)
    for place in range(len(sent)):
        inputs = [{"batch": part} for part in parts(sent, place)]
        yield {"id": f"{case['id']}@{place}", "params": _without_patterns(case, sent), "inputs": inputs}


def _without_patterns(case: Case, sent: list[Entry]) -> dict[str, Any]:
    """The test driver takes batches only for topics that the topology names."""
    params: dict[str, Any] = case["params"]
    if "steps" not in params:
        return params
    topics = sorted({record["topic"] for record in sent})
    named = [
        {**step, "topics": [topic for topic in topics if re.fullmatch(step["pattern"], topic)]}
        if "pattern" in step
        else step
        for step in params["steps"]
    ]
    return {**params, "steps": named}


def ask(oracle: Path, cases: list[Case]) -> list[Answer]:
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "asked.json", Path(folder) / "answered.json"
        asked.write_text(json.dumps(cases))
        subprocess.run([oracle, asked, answered], check=True)
        answers: list[Answer] = json.loads(answered.read_text())
        return answers


def gather(case: Case, answered: dict[str, Answer]) -> list[Answer]:
    """Each different answer once, with its cuts; rows only where they are not the case's own."""
    gathered: dict[str, Answer] = {}
    for place in range(len(records(case))):
        answer = simplified(case, answered[f"{case['id']}@{place}"])
        gathered.setdefault(text_of(answer), {"cuts": [], **answer})["cuts"].append(place)
    return list(gathered.values())


def simplified(case: Case, answer: Answer) -> Answer:
    errors = [error["error"] for error in answer.get("errors", ())]
    errors += [answer[name] for name in ("build_error", "driver_error") if name in answer]
    if errors:
        return {"error": errors[0].splitlines()[0]}
    rows = rows_of(row for group in answer["groups"] for row in group)
    if not unlike(rows_of(case["expected"]), rows, ordered=case["order"] == "strict"):
        return {}
    return {"rows": sorted(rows, key=_place(case))}


def _place(case: Case) -> Any:
    """Topics one after the other; within one, rows only where their order says nothing."""
    return (lambda row: row.topic) if case["order"] == "strict" else _text


def _text(row: Row) -> str:
    return text_of(row)


if __name__ == "__main__":
    main()
