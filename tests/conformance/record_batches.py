"""Ask Kafka Streams for the results of cases sent in batches: `python -m tests.conformance.record_batches ORACLE`."""

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
from tests.conformance.runner import Case, Entry, Row, row_differences, rows_of, text_of

Answer = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("oracle", type=Path, help="a program that takes CASES.json and ANSWERS.json")
    parser.add_argument("--cases", type=Path, default=CASES, help="the folder of cases")
    options = parser.parse_args()
    cases = [case for case in load_cases(options.cases) if records(case)]
    answers = {answer["id"]: answer for answer in ask(options.oracle, [one for case in cases for one in cut(case)])}
    lines = [text_of({"id": case["id"], "answers": gather(case, answers)}) for case in cases]
    answers_of(options.cases).write_text("[\n" + ",\n".join(lines) + "\n]\n")


def cut(case: Case) -> Iterator[Case]:
    """Yield the case with every cut, named by it. A cut at the end is the same as no cut."""
    sent = records(case)
    for place in range(len(sent)):
        inputs = [{"batch": part} for part in parts(sent, place)]
        yield {"id": f"{case['id']}@{place}", "params": _without_patterns(case, sent), "inputs": inputs}


def _without_patterns(case: Case, sent: list[Entry]) -> dict[str, Any]:
    """Replace patterns by topics: the test driver takes batches only for topics named in the topology."""
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
        questions, answered = Path(folder) / "questions.json", Path(folder) / "answered.json"
        questions.write_text(json.dumps(cases))
        subprocess.run([oracle, questions, answered], check=True)
        found: list[Answer] = json.loads(answered.read_text())
        return found


def gather(case: Case, answers: dict[str, Answer]) -> list[Answer]:
    """Return each different answer once, with its cuts; with rows only if they differ from the case's own."""
    gathered: dict[str, Answer] = {}
    for place in range(len(records(case))):
        answer = simplified(case, answers[f"{case['id']}@{place}"])
        gathered.setdefault(text_of(answer), {"cuts": [], **answer})["cuts"].append(place)
    return list(gathered.values())


def simplified(case: Case, answer: Answer) -> Answer:
    errors = [error["error"] for error in answer.get("errors", ())]
    errors += [answer[name] for name in ("build_error", "driver_error") if name in answer]
    if errors:
        return {"error": errors[0].splitlines()[0]}
    rows = rows_of(row for group in answer["groups"] for row in group)
    if not row_differences(rows_of(case["expected"]), rows, ordered=case["order"] == "strict"):
        return {}
    return {"rows": sorted(rows, key=_place(case))}


def _place(case: Case) -> Any:
    """Sort by topic; within a topic keep the order of rows only where it is defined."""
    return (lambda row: row.topic) if case["order"] == "strict" else _text


def _text(row: Row) -> str:
    return text_of(row)


if __name__ == "__main__":
    main()
