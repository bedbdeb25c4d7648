"""What goes wrong in a Cluster, and how often."""

from __future__ import annotations

from dataclasses import dataclass

from streamtopo.settings.durations import Duration


@dataclass(frozen=True)
class Faults:
    """What goes wrong in a `Cluster`. Rates are probabilities for each step of a worker."""

    crash: float = 0.02
    """A worker is killed, also in the middle of a commit. Later, another one is started on its disk."""
    pause: float = 0.02
    """A worker stops for some time, also in the middle of a commit, and continues."""
    leave: float = 0.01
    """A worker commits, leaves the group, and comes back later."""
    join: float = 0.01
    """One more worker joins the group, and leaves it later."""
    evict: float = 0.01
    """The group declares a worker dead, although it is alive."""
    lost_answer: float = 0.01
    """A worker does not learn whether its next commit was done."""
    lost_disk: float = 0.2
    """The share of crashes in which the stores on the disk are lost too."""
    most: int = 12
    """The largest number of faults in a run. The seed decides how many there are."""
    longest: Duration = "1d"
    """The longest pause, and the longest time until a worker is back."""
    session: Duration = "10s"
    """The group declares a silent worker dead after this long."""


NO_FAULTS = Faults(most=0)
