"""How many of the counted windows are exact: as in a run in which no record came too late."""

from __future__ import annotations

from benchmarks.harness import DifferentResultsError
from benchmarks.peers.workloads import Values


def exactness(found: Values, truth: Values) -> dict[str, float]:
    """Compare the last count of each user and window with the true one, and count the records that are missing.

    A late record can only be missing: a count that is too large is a mistake.
    """
    wrong = [key for key, count in found.items() if count > truth.get(key, 0)]
    if wrong:
        raise DifferentResultsError(
            f"{len(wrong)} windows have more records than there are: that of {wrong[0]!r} has {found[wrong[0]]}, "
            f"not {truth.get(wrong[0], 0)}"
        )
    exact = sum(found.get(key) == count for key, count in truth.items())
    return {"exact %": 100 * exact / len(truth), "missing": sum(truth.values()) - sum(found.values())}
