"""A table joined with another by a foreign key, in four steps: subscribe, keep, answer, and join what was answered.

The other table's task keeps a subscription for each left row, so that an update of a foreign row reaches all of them.
An answer carries the hash of the left value it was asked for; if the left row has changed since, it is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any, NamedTuple

from streamtopo.operators.joins.lookup import Lookup
from streamtopo.operators.joins.subscribers import Subscribers
from streamtopo.operators.joins.subscription import (
    NO_HASH,
    Instruction,
    Response,
    Subscription,
    hashes_of,
    prefix_of,
    response,
)
from streamtopo.operators.keeping import Keeping
from streamtopo.operators.tables.aggregate import Dropped
from streamtopo.operators.tables.conversions import old_values, put
from streamtopo.records import NOTHING, OUTDATED, Chunk, PlacedPuts
from streamtopo.row_calls import each_row
from streamtopo.serdes import Serde
from streamtopo.steps import Step, WatchingFunction, WatchingStep
from streamtopo.stores.rows.state import State
from streamtopo.topology.operator import Bindings

Extract = Callable[[Any, Any], Any]
"""(key, value of a left row) -> the key of a row of the other table, or None."""
Instructions = Iterable[tuple[Any, Instruction]]
_KNOWN_ROWS = 10_000
"""Maximum number of rows whose missing answers are remembered one by one; of others, only the number is known."""


# -- with the left table


class Sides(NamedTuple):
    """How the two tables are encoded."""

    key: Serde
    value: Serde
    foreign: Serde
    other: Serde

    def foreign_bytes(self, key: Any) -> bytes | None:
        return None if key is None else self.foreign.encode(key)

    def same(self, one: Any, other: Any) -> bool:
        """Whether the foreign keys have equal bytes; the first one is not None."""
        if other is None or self.foreign.exact:
            return bool(one == other)
        return self.foreign.encode(one) == self.foreign.encode(other)


class Unanswered:
    """The left rows of an inner join whose cancelled subscriptions are not answered yet, in one task of the left table.

    Such an answer deletes the joined row. But if the left row was put again in the meantime, the answer is dropped, as
    all answers to older rows are. So while such an answer is missing, a new subscription always requests an answer.

    Two registers count the missing answers, also over restarts. Their rows are known only for subscriptions that were
    cancelled since the last restart. The other missing answers may be those of any row, so as long as there are some,
    a deletion may be sent for a row that was never joined.
    """

    def __init__(self, bindings: Bindings, name: str) -> None:
        self._cancelled = bindings.register(f"{name} cancelled")
        self._answered = bindings.register(f"{name} answered")
        self._of_any_row = self._cancelled.value - self._answered.value
        self._by_key: Counter[bytes] = Counter()
        self._since_commit: list[bytes] = []
        """Rows answered since the last commit, perhaps later in this round than the rows that subscribe now."""

    def waits_for(self, key: bytes) -> bool:
        return self._of_any_row > 0 or key in self._by_key

    def cancelled(self, key: bytes) -> None:
        self._cancelled.value += 1
        self._by_key[key] += 1
        if len(self._by_key) > _KNOWN_ROWS:
            self._of_any_row += self._by_key.total()
            self._by_key.clear()

    def answered(self, keys: list[bytes]) -> None:
        """Older versions counted no cancelled subscriptions; answers to theirs are not counted either."""
        self._answered.value = min(self._answered.value + len(keys), self._cancelled.value)
        self._since_commit += keys

    def committing(self) -> None:
        for key in self._since_commit:
            if key not in self._by_key:
                self._of_any_row = max(self._of_any_row - 1, 0)
            elif self._by_key[key] > 1:
                self._by_key[key] -= 1
            else:
                del self._by_key[key]
        self._since_commit.clear()


class Subscribe(Step):
    """Turns each update of a left row into one or two messages to foreign keys."""

    def __init__(
        self,
        sides: Sides,
        extract: Extract,
        dropped: Dropped,
        *,
        partition: int,
        unanswered: Unanswered | None,
    ) -> None:
        """`unanswered` is used by inner joins; without it, the join is a left join."""
        self._sides, self._extract, self._dropped = sides, extract, dropped
        self._partition, self._unanswered = partition, unanswered
        self._instructions = _left_subscriptions if unanswered is None else _inner_subscriptions

    def process(self, chunk: Chunk) -> Chunk:
        chunk = in_order(chunk, self._dropped)
        places: list[int] = []
        targets: list[Any] = []
        subscriptions: list[Subscription] = []
        sides, extract = self._sides, self._extract
        own_bytes: list[Any] = [*sides.key.encode_column(chunk.keys)]
        rows = zip(
            chunk.keys, own_bytes, chunk.values, old_values(chunk), hashes_of(sides.value, chunk.values), strict=True
        )
        for place, (own, own_key, new, old, hash) in enumerate(rows):
            if old is None and new is None:
                continue
            before, now = (None if one is None else extract(own, one) for one in (old, new))
            for target, instruction in self._instructions(new, now, before, sides, self._dropped):
                places.append(place)
                targets.append(target)
                subscriptions.append(self._subscription(instruction, hash, own_key, is_new=before is None))
        return chunk.emit(places, targets, subscriptions)

    def before_commit(self) -> Chunk:
        if self._unanswered is not None:
            self._unanswered.committing()
        return NOTHING

    def _subscription(self, instruction: Instruction, hash: bytes, key: bytes, *, is_new: bool) -> Subscription:
        if self._unanswered is not None:
            if instruction is Instruction.CANCEL_AND_ANSWER:
                self._unanswered.cancelled(key)
                hash = NO_HASH
            elif is_new and self._unanswered.waits_for(key):
                instruction = Instruction.ANSWER
        return Subscription(instruction, hash, key, self._partition)


def _inner_subscriptions(new: Any, now: Any, before: Any, sides: Sides, dropped: Dropped) -> Instructions:
    """A row that is no longer joined is deleted, even if it never was joined, because this is not known here."""
    if new is not None and now is None:
        dropped("null foreign key", 1)
    if now is None:
        if before is not None:
            yield before, Instruction.CANCEL_AND_ANSWER
    elif before is None or sides.same(before, now):
        yield now, Instruction.ANSWER_IF_FOUND
    else:
        yield before, Instruction.CANCEL
        yield now, Instruction.ANSWER


def _left_subscriptions(new: Any, now: Any, before: Any, sides: Sides, dropped: Dropped) -> Instructions:
    """Every row gets an answer. Without a foreign key, the answer is that there is no foreign row."""
    if before is not None and not sides.same(before, now):
        yield before, Instruction.CANCEL
    yield now, Instruction.ANSWER


def in_order(chunk: Chunk, dropped: Dropped) -> Chunk:
    """The chunk without updates of versions before the latest."""
    if chunk.old is None or all(old is not OUTDATED for old in chunk.old):
        return chunk
    mask = [old is not OUTDATED for old in chunk.old]
    dropped("out of order", mask.count(False))
    return chunk.select(mask)


def resolve(
    sides: Sides,
    lookup: Lookup,
    extract: Extract,
    joiner: Callable[[Any, Any], Any],
    dropped: Dropped,
    *,
    unanswered: Unanswered | None,
) -> WatchingStep:
    """Join answers with the current left rows.

    `unanswered` is used by inner joins; without it, the join is a left join.
    """

    def usable(key: Any, own: Any, hash: bytes, answer: Response) -> bool:
        """Whether this is the answer that the left row waits for.

        An inner join gets no answer to an update that keeps its foreign key if there is no foreign row. So an earlier
        answer, that there is none, is used for the current row, too. Kafka Streams 4.1 drops it, and keeps the old
        joined row. The answer to a cancelled subscription is used for a row without a foreign key.
        """
        if answer.hash == hash:
            return True
        if unanswered is None or answer.there or own is None:
            return False
        now = sides.foreign_bytes(extract(key, own))
        return now == answer.data or (now is None and answer.hash == NO_HASH)

    def step(chunk: Chunk, puts: Sequence[PlacedPuts]) -> Chunk:
        rows = lookup.find(chunk, puts)
        if unanswered is not None:
            cancelled = compress(chunk.keys, [answer.hash == NO_HASH for answer in chunk.values])
            unanswered.answered([key for key in sides.key.encode_column(list(cancelled)) if key is not None])
        own = [row and row[0] for row in rows]
        mask = list(map(usable, chunk.keys, own, hashes_of(sides.value, own), chunk.values))
        if not all(mask):
            dropped("answer to an older row", mask.count(False))
            chunk, own = chunk.select(mask), list(compress(own, mask))
        foreign = sides.other.decode_column([answer.data if answer.there else None for answer in chunk.values])
        return chunk.with_values(each_row(joined, own, foreign))

    def joined(own: Any, foreign: Any) -> Any:
        return None if own is None or (foreign is None and unanswered is not None) else joiner(own, foreign)

    return WatchingFunction(step)


# -- with the other table


def keep_subscriptions(state: State, foreign: Serde) -> Keeping:
    """Stores subscriptions, unless they have no foreign key, and forwards all of them."""

    def step(chunk: Chunk) -> Chunk:
        kept = chunk.select([key is not None for key in chunk.keys]) if None in chunk.keys else chunk
        keys = [
            prefix_of(key or b"") + subscription.key
            for key, subscription in zip(foreign.encode_column(kept.keys), kept.values, strict=True)
        ]
        values = [
            None if subscription.instruction in _CANCELLED else subscription.encode() for subscription in kept.values
        ]
        put(state, kept.with_keys(keys).with_values(values))
        return chunk

    return Keeping(step, state)


_CANCELLED = (Instruction.CANCEL, Instruction.CANCEL_AND_ANSWER)


def answer(sides: Sides, lookup: Lookup) -> WatchingStep:
    """Answer each subscription with the current foreign row."""

    def step(chunk: Chunk, puts: Sequence[PlacedPuts]) -> Chunk:
        rows = lookup.find(chunk, puts)
        wanted = [
            instruction is not Instruction.CANCEL
            and (row is not None or instruction is not Instruction.ANSWER_IF_FOUND)
            for (instruction, *_), row in zip(chunk.values, rows, strict=True)
        ]
        if not all(wanted):
            chunk, rows = chunk.select(wanted), list(compress(rows, wanted))
        times = [
            time if row is None or row[1] < time else row[1] for time, row in zip(chunk.timestamps, rows, strict=True)
        ]
        values = sides.other.encode_column(
            [
                None if row is None or subscription.instruction is Instruction.CANCEL_AND_ANSWER else row[0]
                for subscription, row in zip(chunk.values, rows, strict=True)
            ]
        )
        answers = list(map(response, chunk.values, sides.foreign.encode_column(chunk.keys), values))
        keys = [subscription.key for subscription in chunk.values]
        return chunk.with_keys(keys).with_rows(answers, times)

    return WatchingFunction(step)


def answer_subscribers(sides: Sides, subscribers: Subscribers, dropped: Dropped) -> WatchingStep:
    """Each update of a foreign row to all left rows that are subscribed to it then, in the order of their keys."""

    def step(chunk: Chunk, puts: Sequence[PlacedPuts]) -> Chunk:
        found = subscribers.find(chunk, puts)
        usable = in_order(chunk, dropped)
        if usable is not chunk:
            found = [several for several, old in zip(found, old_values(chunk), strict=True) if old is not OUTDATED]
            chunk = usable
        places = [place for place, subscriptions in enumerate(found) for _ in subscriptions]
        subscribed = [Subscription.decode(data) for subscriptions in found for data in subscriptions]
        keys, values = sides.foreign.encode_column(chunk.keys), sides.other.encode_column(chunk.values)
        answers = [response(one, keys[place], values[place]) for place, one in zip(places, subscribed, strict=True)]
        return chunk.emit(places, [one.key for one in subscribed], answers)

    return WatchingFunction(step)
