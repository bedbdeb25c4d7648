"""Every kind of operator in one application. kept.tar.xz has its log and state half way, from commit 04b017a.

`python -m tests.upgrades.kept FOLDER`, run with that commit, made them, and expected.json with the later output.
(RocksDB's own LOG was left out.)
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamtopo import (
    KStream,
    StreamsBuilder,
    Topology,
    Windows,
    until_time_limit,
    until_window_closes,
)

MINUTE = 60_000
Build = Callable[[KStream, KStream], Any]


def both(one: Any, other: Any) -> str:
    return f"{one}+{other}"


def add(_: str, value: str, row: list[str]) -> list[str]:
    return [*row, value]


def merge(_: str, one: list[str], other: list[str]) -> list[str]:
    return sorted([*one, *other])


def by_length(value: str) -> str:
    return "abc"[len(value) % 3]


TIMES: Any = {"before": 2 * MINUTE, "after": 3 * MINUTE, "grace": MINUTE}
TUMBLING = Windows.tumbling(2 * MINUTE, grace=2 * MINUTE)
HOPPING = Windows.hopping(3 * MINUTE, every=MINUTE, grace=2 * MINUTE)
SLIDING = Windows.sliding(2 * MINUTE, grace=2 * MINUTE)
SESSION = Windows.session(MINUTE, grace=3 * MINUTE)


def windowed(windows: Any, **options: Any) -> Build:
    merger = [merge] if windows is SESSION else []
    return lambda one, _: (
        one.group_by_key().windowed_by(windows, **options).aggregate(list, add, *merger, value=list).to_stream()
    )


OPERATORS: dict[str, Build] = {
    "join": lambda one, other: one.join(other, both, **TIMES),
    "left": lambda one, other: one.left_join(other, both, **TIMES),
    "outer": lambda one, other: one.outer_join(other, both, **TIMES),
    "tumbling": windowed(TUMBLING),
    "hopping": windowed(HOPPING),
    "sliding": windowed(SLIDING),
    "session": windowed(SESSION),
    "tumbling-closed": windowed(TUMBLING, emit="on_close"),
    "sliding-closed": windowed(SLIDING, emit="on_close"),
    "session-closed": windowed(SESSION, emit="on_close"),
    "cogrouped": lambda one, other: (
        one.group_by_key()
        .cogroup(add)
        .cogroup(other.group_by_key(), add)
        .windowed_by(TUMBLING)
        .aggregate(list, value=list)
        .to_stream()
    ),
    "suppressed": lambda one, _: (
        one.group_by_key().windowed_by(HOPPING).count().suppress(until_window_closes()).to_stream()
    ),
    "limited": lambda one, _: one.to_table().suppress(until_time_limit(MINUTE, max_records=2)).to_stream(),
    "deduplicated": lambda one, _: one.deduplicate(2 * MINUTE),
    "aggregated": lambda one, _: one.group_by_key().aggregate(list, add, value=list).to_stream(),
    "looked-up": lambda one, other: one.left_join(other.to_table(), both),
    "versioned": lambda one, other: one.left_join(other.to_table(versioned=4 * MINUTE), both, grace=2 * MINUTE),
    "tables": lambda one, other: one.to_table().outer_join(other.to_table(), both).to_stream(),
    "regrouped": lambda one, _: (
        one.to_table().group_by(lambda key, value: (value[-1], value), key=str).count().to_stream()
    ),
    "foreign": lambda one, other: one.to_table().left_join(other.to_table(), both, foreign_key=by_length).to_stream(),
}


def topology() -> Topology:
    builder = StreamsBuilder("kept")
    one, other = (builder.stream(topic, key=str, value=str) for topic in ("one", "other"))
    for name, build in OPERATORS.items():
        stream = build(one, other).map(
            lambda key, value, name=name: (f"{name} {text(key)}", str(value)), key=str, value=str
        )
        stream.to("out")
    return builder.build()


def text(key: Any) -> str:
    return "-".join(map(str, key)) if isinstance(key, tuple) else str(key)


def records(part: int) -> list[tuple[str, str, str, int]]:
    """Return topic, key, value and time of the first or second half. The second starts where the first ends."""
    chosen, now, found = random.Random(17), 10 * MINUTE, []
    for number in range(240):
        now += chosen.choice([0, 1, 3000, 20_000, 20_000, 90_000])
        late = chosen.choice([0, 0, 0, 1, MINUTE, 3 * MINUTE, 8 * MINUTE])
        found.append(
            (chosen.choice(["one", "other"]), chosen.choice("aab"), "v" * chosen.randrange(3) + str(number), now - late)
        )
    return found[:120] if part == 0 else found[120:]


def main(folder: Path) -> None:
    from tests.upgrades.versions import Home

    home = Home(folder / "kept", ("one", "other", "out"))
    for part in (0, 1):
        for topic, key, value, time in records(part):
            home.put(topic, (key, value, time))
        written = home.run(topology())
        if part == 0:
            home.log.close()
            shutil.make_archive(str(folder / "kept"), "xztar", folder / "kept")
            home = Home(folder / "kept", ())
    (folder / "expected.json").write_text(json.dumps(written, indent=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
