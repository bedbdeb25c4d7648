"""Whether the rows of a store can be trusted, or are to be rebuilt from the changelog."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import NamedTuple

_CLOCK_ERROR = 60_000
"""Milliseconds by which a store may be younger than the clock says it can be."""
_LAYOUT = ", layout "
"""What follows the changelog's id where a stamp is written. Programs that know of no layout read all of it as the id of
another changelog, so they rebuild the store, which is right.
"""


class Stamp(NamedTuple):
    """What a store keeps beside its rows: the changelog offset they stand for, whose, and when it was written."""

    offset: int
    log: str
    changelog: str
    written_at: int
    layout: str = ""
    """Where its rows are (`stores/layout.py`); empty where none of it can change, and in stamps of older programs."""

    def encoded(self) -> bytes:
        changelog = self.changelog + (_LAYOUT + self.layout if self.layout else "")
        return json.dumps([self.offset, self.log, changelog, self.written_at]).encode()

    @staticmethod
    def decoded(data: bytes) -> Stamp:
        offset, log, changelog, written_at = json.loads(data)
        changelog, _, layout = changelog.partition(_LAYOUT)
        return Stamp(offset, log, changelog, written_at, layout)


class Facts(NamedTuple):
    """The changelog as it is now, by the ids of its log and topic (the topic's name, if the log gives it no id)."""

    log: str
    changelog: str
    start: int
    end: int
    now: int
    tombstone_retention: int | None = None
    """Milliseconds for which deletions stay in the changelog; None if they always do."""
    layout: str = ""
    """Where the topology has the rows of the store now."""
    cleaned: tuple[int, int] | None = None
    """If the log knows: before which offset deletions may be gone, of rows that were gone themselves at what time."""


def why_not_trusted(kept: Stamp, now: Facts) -> str | None:
    """The reason to rebuild a store rather than to go on from its position; None if there is none.

    A store at its changelog's end missed nothing, whatever its age. Behind it, deletions may have come and gone.
    """
    if kept.log != now.log:
        return f'it belongs to another log: it is of "{kept.log}", and this one is "{now.log}"'
    if kept.changelog != now.changelog:
        return f'its changelog was made anew: it is of "{kept.changelog}", and the topic is "{now.changelog}"'
    if kept.layout != now.layout:
        before = kept.layout or "an older streamtopo did"
        return f"its rows are stored as {before}, and the topology wants {now.layout or 'plain rows'}"
    if kept.offset > now.end:
        return f"it is ahead of its changelog: at offset {kept.offset}, which ends at {now.end}"
    if kept.offset < now.start:
        return f"it is behind the start of its changelog: at offset {kept.offset}, which starts at {now.start}"
    if kept.offset == now.end:
        return None
    return why_deletions_may_be_gone(kept.offset, kept.written_at, now)


def why_deletions_may_be_gone(offset: int, as_of: int, now: Facts) -> str | None:
    """`as_of`: rows that were gone by then were never read, so that their deletions are not missed."""
    age = now.now - as_of
    if now.cleaned is None:
        return None if now.tombstone_retention is None else why_too_old(age, now.tombstone_retention)
    before, at = now.cleaned
    if offset >= before or (as_of > at and age >= -_CLOCK_ERROR):
        return None
    return f"it is too old: last written {timedelta(milliseconds=age)} ago, and deletions since then are gone"


def why_too_old(age: int, retention: int) -> str | None:
    if age < -_CLOCK_ERROR:
        return f"its age is not known: it was last written {timedelta(milliseconds=-age)} ahead of this clock"
    if age > retention:
        written, kept = timedelta(milliseconds=age), timedelta(milliseconds=retention)
        return f"it is too old: last written {written} ago, and its changelog keeps deletions for {kept}"
    return None
