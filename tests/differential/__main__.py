"""Ask Kafka Streams and streamtopo the same random questions: `python -m tests.differential ORACLE --cases 1000`."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from tests.conformance.record_batches import ask
from tests.differential.compare import answered, differences
from tests.differential.generate import case


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("oracle", type=Path, help="a program that takes CASES.json and ANSWERS.json")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument(
        "--seed", type=int, default=time.time_ns() // 1_000_000, help="of the first case; they count up"
    )
    parser.add_argument("--record", type=Path, help="write the cases with their answers into this file")
    options = parser.parse_args()
    cases = [case(options.seed + number) for number in range(options.cases)]
    known = [answered(one, answer) for one, answer in zip(cases, ask(options.oracle, cases), strict=True)]
    good = [one for one in known if one is not None]
    different = [(one, found) for one in good if (found := differences(one))]
    for one, found in different:
        print(f"{one['id']} ({one['operator']}): {json.dumps(one['params'])}\n{found[0]}\n")
    if options.record is not None:
        options.record.write_text("[\n" + ",\n".join(json.dumps(one) for one in good) + "\n]\n")
    print(f"{len(good)} cases from {options.seed} on, {len(different)} different, {len(cases) - len(good)} no answer")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
