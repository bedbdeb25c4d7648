"""Rounds: the rows that a task takes from its inputs at a time, numbered in the order of Kafka Streams."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from streamtopo.engine.program.stations import Failure
from streamtopo.engine.task.inputs import Input, InputRows, Rows
from streamtopo.errors import faults
from streamtopo.records import Chunk, Order, TopicPartition, interleave, latest_so_far, made_from, within, without
from streamtopo.topology.clocks import OperatorClock, not_past
from streamtopo.windows import FOREVER


@dataclass(frozen=True, slots=True)
class Round:
    """Rows taken together. For each part, `numbers` has the place of each of its rows in the round."""

    parts: tuple[InputRows, ...]
    numbers: tuple[Sequence[int], ...]
    bound: int = FOREVER
    """Clocks do not follow rows with a later time: they are too far ahead of the wall clock."""

    @property
    def size(self) -> int:
        return sum(part.rows.size for part in self.parts)

    @property
    def time(self) -> int:
        return max(part.time for part in self.parts)

    def raw(self) -> Round:
        """The round without its decoded values, which would only use memory until the commit."""
        parts = tuple(part._replace(rows=part.rows.undecoded()) for part in self.parts)
        return replace(self, parts=parts)

    def chunks(self, *, fresh: bool, ordered: bool, paths: bool) -> dict[str, Chunk]:
        """The rows of each source. With `fresh` they are decoded again: the last run may have changed them in place."""
        by_source: dict[str, list[Chunk]] = {}
        for part, numbers in zip(self.parts, self.numbers, strict=True):
            source = part.input.source
            rows = _decoded_again(part) if fresh or not part.rows.decoded else part.rows
            order: list[Order] | None = None
            if ordered or len(self.parts) > 1:
                order = [(number,) for number in numbers] if paths else list(numbers)
            chunk = Chunk(rows.keys, rows.values, rows.timestamps, rows.headers, order)
            by_source.setdefault(source.name, []).append(chunk)
        together = {
            name: several[0] if len(several) == 1 else interleave(several) for name, several in by_source.items()
        }
        return together if ordered else {name: replace(chunk, order=None) for name, chunk in together.items()}

    def rows_by_number(self) -> list[tuple[InputRows, int]]:
        """For each number, where its row came from: the part, and the index in it."""
        found: list[tuple[InputRows, int]] = [(part, 0) for part in self.parts[:1]] * self.size
        for part, numbers in zip(self.parts, self.numbers, strict=True):
            for place, number in enumerate(numbers):
                found[number] = part, place
        return found

    def times(self, clock: OperatorClock, horizon: int, left_out: Collection[int] = ()) -> list[int]:
        """For each number, the stream time of the task when that row is processed; the clock has it at the start."""
        raw = [part.rows.timestamps[place] for part, place in self.rows_by_number()]
        for number in left_out:
            raw[number] = -1
        return not_past(latest_so_far(within(raw, self.bound), clock.seen), max(horizon, clock.time))

    def part(self, start: int, stop: int) -> Round:
        """The rows with these numbers as a round of their own."""
        parts, places = [], []
        for part, numbers in zip(self.parts, self.numbers, strict=True):
            first, last = bisect_left(numbers, start), bisect_left(numbers, stop)
            if first < last:
                parts.append(self._cut(part, first, last))
                places.append([number - start for number in numbers[first:last]])
        return Round(tuple(parts), tuple(places), self.bound)

    def _cut(self, part: InputRows, first: int, last: int) -> InputRows:
        rows = part.rows.slice(slice(first, last))
        following = part.next_offset if last == part.rows.size else part.rows.offsets[last]
        return InputRows(part.input, rows, max(within(rows.timestamps, self.bound)), following)

    def place(self, number: int) -> tuple[InputRows, int]:
        """The part that has the row with this number, and its place there."""
        for part, numbers in zip(self.parts, self.numbers, strict=True):
            place = bisect_left(numbers, number)
            if place < len(numbers) and numbers[place] == number:
                return part, place
        raise AssertionError("each number of a round has its row")

    def times_without(self, left_out: Collection[int]) -> list[int]:
        """For each part, the largest timestamp of the other rows that clocks follow, or -1."""
        if not left_out:
            return [part.time for part in self.parts]
        times = []
        for part, numbers in zip(self.parts, self.numbers, strict=True):
            gone = made_from(numbers, left_out)
            if all(part.rows.timestamps[place] < part.time for place in gone):
                times.append(part.time)
            else:
                times.append(max(within(without(part.rows.timestamps, gone), self.bound), default=-1))
        return times


def _decoded_again(part: InputRows) -> Rows:
    try:
        return part.rows.fresh(part.input.source)
    except faults() as error:  # the first time it was possible
        raise Failure(part.input.source.name, error) from error


def take(
    inputs: Sequence[Input],
    ends: Mapping[TopicPartition, int],
    *,
    limit: int,
    time: int = -1,
    due: int | None = None,
    bound: int = FOREVER,
) -> Round | None:
    """The next rows: the input whose first row has the smallest timestamp comes first. None if that is not known yet.

    The round ends where an input has no rows left but the log has more, and after the row that moves stream time to
    `due`.
    """
    sizes = [one.waiting.size for one in inputs]
    counts = [min(limit, size) for size in sizes]
    numbers = _ranks(inputs, counts, bound)
    cut = min(limit, sum(counts))
    for one, size, count, places in zip(inputs, sizes, counts, numbers, strict=True):
        more = one.poison is not None or ends.get(one.partition, 0) > one.fetched
        if more or count < size:
            cut = min(cut, places[-1] + 1 if count else 0)
    if due is not None:
        cut = _cut_at(due, inputs, numbers, time, cut, bound)
    if not cut:
        return None
    numbers = [places[: bisect_left(places, cut)] for places in numbers]
    return Round(
        tuple(one.take(len(places), bound) for one, places in zip(inputs, numbers, strict=True) if places),
        tuple(places for places in numbers if places),
        bound,
    )


def _ranks(inputs: Sequence[Input], counts: Sequence[int], bound: int) -> list[Sequence[int]]:
    """For each input, the places of its rows among the rows of all inputs.

    Taking the smallest first row each time is the same as sorting by the largest timestamp so far in the row's own
    input: a row that is older than the one before it, or past the bound, follows that one at once. For equal
    timestamps, the first input comes first.
    """
    if max(counts) == sum(counts):
        return [range(count) for count in counts]
    heads: list[int] = []
    for one, count in zip(inputs, counts, strict=True):
        heads += latest_so_far(within(one.waiting.timestamps[:count], bound))
    ranks = [0] * len(heads)
    for rank, place in enumerate(sorted(range(len(heads)), key=heads.__getitem__)):
        ranks[place] = rank
    starts = accumulate(counts, initial=0)
    return [ranks[start : start + count] for start, count in zip(starts, counts, strict=False)]


def _cut_at(due: int, inputs: Sequence[Input], numbers: list[Sequence[int]], time: int, cut: int, bound: int) -> int:
    """`cut`, or the place after the row that moves stream time to `due`, if that is smaller."""
    times = [0] * sum(map(len, numbers))
    for one, places in zip(inputs, numbers, strict=True):
        for place, timestamp in zip(places, one.waiting.timestamps, strict=False):
            times[place] = timestamp
    for place, reached in enumerate(accumulate(within(times[:cut], bound), max, initial=time)):
        if place and reached >= due:
            return place
    return cut
