"""The error message for a missing package of an optional extra."""

from __future__ import annotations


def missing(what: str, extra: str) -> str:
    """`what` needs it."""
    return (
        f'{what} needs the extra "{extra}": pip install "streamtopo[{extra}]" '
        f"(in a clone of streamtopo: pip install -e '.[{extra}]')"
    )
