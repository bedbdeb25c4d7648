"""The input of each application, and how many of the results of a run are right, by plain Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from streamtopo.partitioning import partition_of

PARTITIONS = 2
START = 1_790_000_000_000 // 60_000 * 60_000
HOUR = 3_600_000
MINUTE = 60_000
USERS = [f"user {number}" for number in range(20)]
CLICKS, BETWEEN = 20_000, 300
END = START + CLICKS * BETWEEN
"""After 100 minutes."""
LATE = USERS[0], START + (CLICKS // 2 * BETWEEN - 10 * MINUTE) // MINUTE * MINUTE
"""The window of the click that comes ten minutes late."""
ORDERS, MOVED = 10_000, 300_000
"""Customers move after half of the ten minutes."""


class Fed(NamedTuple):
    topic: str
    partition: int
    key: str | None
    value: str
    timestamp: int


class Got(NamedTuple):
    topic: str
    key: str
    value: Any


class Application(NamedTuple):
    topics: tuple[str, ...]
    """The last ones are for results."""
    feed: Callable[[], Iterator[Fed]]
    judge: Callable[[list[Got]], str]


def sentences() -> Iterator[Fed]:
    rng = random.Random(1)
    for number in range(2000):
        words = rng.choices([f"word-{word}" for word in range(50)], k=8)
        yield Fed("sentences", number % PARTITIONS, None, " ".join(words), START + number)


def judge_words(results: list[Got]) -> str:
    truth = Counter(word for sentence in sentences() for word in sentence.value.split())
    last = {row.key: row.value for row in results}
    return f"{sum(last.get(word) == count for word, count in truth.items())} of {len(truth)} words are right"


def clicks() -> Iterator[Fed]:
    """Each partition is in order, but for delays of 5 s, and one click is 10 minutes late. The last end all windows."""
    rng = random.Random(2)
    for number in range(CLICKS):
        delay = 5000 if number % 100 == 99 else 0
        yield _click(number % PARTITIONS, rng.choice(USERS), number * BETWEEN - delay)
        if number == CLICKS // 2:
            yield _click(0, USERS[0], number * BETWEEN - 10 * MINUTE)
    for user in USERS:
        for partition in range(PARTITIONS):
            yield _click(partition, user, CLICKS * BETWEEN + HOUR)


def _click(partition: int, user: str, after: int) -> Fed:
    at = START + max(after, 0)
    return Fed("clicks", partition, None, json.dumps({"user": user, "ts": at}), at)


def judge_clicks(results: list[Got]) -> str:
    """Of all windows but that of the late click, which may count or not."""
    fed = [(fed.timestamp, json.loads(fed.value)["user"]) for fed in clicks() if fed.timestamp < END]
    truth = Counter((user, at // MINUTE * MINUTE) for at, user in fed)
    rows = [row for row in results if row.topic == "clicks-per-minute"]
    last = {(row.key, row.value["start"]): row.value["count"] for row in rows if row.value["start"] < END}
    counted = last.get(LATE) == truth.pop(LATE)
    exact = sum(last.get(window) == count for window, count in truth.items())
    missing = sum(max(count - last.get(window, 0), 0) for window, count in truth.items())
    aside = sum(row.topic == "late-clicks" for row in results)
    late = "counted" if counted else "set aside" if aside else "dropped"
    lost = f"{missing} clicks are missing, {aside} in the topic of late ones"
    return f"{exact} of {len(truth)} windows are right; {lost}; the late click is {late}; {len(rows)} rows"


def customers_and_orders() -> Iterator[Fed]:
    """In the order of their times; the last orders move time."""
    rng = random.Random(3)
    customers = [f"customer {number}" for number in range(50)]
    moves = [(0, "Norway"), (MOVED, "Chile")]
    rows = [_keyed("customers", customer, {"country": country}, at) for at, country in moves for customer in customers]
    rows += [_keyed("orders", rng.choice(customers), {"id": number}, 1 + number * 60) for number in range(ORDERS)]
    rows += [_keyed("orders", customer, {"id": -1}, HOUR) for customer in customers]
    yield from sorted(rows, key=lambda row: row.timestamp)


def _keyed(topic: str, key: str, value: dict[str, Any], after: int) -> Fed:
    return Fed(topic, partition_of(key.encode(), PARTITIONS), key, json.dumps(value), START + after)


def judge_orders(results: list[Got]) -> str:
    truth = {number: "Norway" if 1 + number * 60 < MOVED else "Chile" for number in range(ORDERS)}
    found = {row.value["id"]: row.value["country"] for row in results if row.value["id"] >= 0}
    right = sum(found.get(number) == country for number, country in truth.items())
    return f"{right} of {ORDERS} orders have the country of their time; {ORDERS - len(found)} are missing"


APPLICATIONS = {
    "words": Application(("sentences", "word-counts"), sentences, judge_words),
    "clicks": Application(("clicks", "clicks-per-minute", "late-clicks"), clicks, judge_clicks),
    "orders": Application(("customers", "orders", "enriched"), customers_and_orders, judge_orders),
}
