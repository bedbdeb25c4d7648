"""Decides whether the rows of a store can be trusted, or must be rebuilt from the changelog."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import NamedTuple

_CLOCK_ERROR = 60_000
"""Milliseconds by which a store may have been written in the future, according to this clock."""
_LAYOUT = ", layout "
"""The text between the changelog's id and the layout in a stored stamp. Older programs, without layouts, read all of it
as the id of another changelog, so they rebuild the store, as they should.
"""


class Stamp(NamedTuple):
    """Stored with the rows: the changelog offset that they include, the ids of log and changelog, and the time."""

    offset: int
    log: str
    changelog: str
    written_at: int
    layout: str = ""
    """The layout of the rows (`stores/rows/layout.py`); empty if it cannot change, and in stamps of older programs."""

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
    """How the current topology lays out the rows of the store."""
    cleaned: tuple[int, int] | None = None
    """If the log knows: deletions before this offset may be gone, if their rows were already gone at this time."""


def why_not_trusted(kept: Stamp, now: Facts) -> str | None:
    """The reason to rebuild a store instead of continuing from its position; None if it can be trusted.

    A store at its changelog's end has missed nothing, whatever its age. Before the end, it may have missed deletions.
    """
    if kept.log != now.log:
        return f'it belongs to another log: the store is from "{kept.log}", and this log is "{now.log}"'
    if kept.changelog != now.changelog:
        return (
            f'its changelog topic was recreated: the store is from "{kept.changelog}", the topic is now '
            f'"{now.changelog}"'
        )
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
    """The reason, if there is one. Rows that were deleted before `as_of` were never read, so they need no deletion."""
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
