"""streamtopo groups: the members of groups, their partitions and their lag."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import click

from streamtopo.cli.shared.failures import Commands
from streamtopo.cli.shared.log_access import complete_group, on_same_log, opened_log, opened_log_or_empty
from streamtopo.cli.shared.options import json_option, log_option
from streamtopo.cli.shared.tables import counted, show_json, show_rows
from streamtopo.engine.task.metadata import TimeInPosition, time_in
from streamtopo.errors import LogError
from streamtopo.logs import GroupState, Log
from streamtopo.logs.opening import shown_log
from streamtopo.records import TopicPartition
from streamtopo.settings.durations import spoken


class PartitionLag(NamedTuple):
    """A group's position and lag in one partition."""

    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int | None
    """None before the first commit, because it depends on where the group will start."""
    owner: str | None
    time: TimeInPosition | None = None
    """For a partition of a repartition topic that several tasks write: what is known of the time of these tasks."""


@click.group(cls=Commands)
def groups() -> None:
    """List and describe groups: the workers of one application."""


@groups.command("list")
@log_option
@json_option
def list_groups(log: str, as_json: bool) -> None:
    """List the groups with their members, partitions and lag.

    Only living members are counted. The lag is unknown before the first commit.

    \b
    Examples:
      streamtopo groups list --log embedded:data
      streamtopo groups list --json
    """
    with opened_log_or_empty(log) as source:
        found = [
            {"group": name, "members": len(state.members)} | _totals(partition_lags(source, state))
            for name, state in sorted(source.groups().items())
        ]
    if as_json:
        show_json(found)
    else:
        show_rows(found, {name: name for name in ("group", "members", "partitions", "lag")})


@groups.command()
@click.argument("group", shell_complete=complete_group)
@log_option
@json_option
def describe(group: str, log: str, as_json: bool) -> None:
    """Show the members of GROUP, and its lag in each partition.

    For each partition, show the committed position, the end, the lag (a number of offsets), and the owner. Position
    and lag are unknown before the first commit. If windows after a repartition topic wait for a slow task, show this
    task. For example, task 0_3 reads partition 3 of the input.

    \b
    Examples:
      streamtopo groups describe wordcount
      streamtopo groups describe wordcount --json
    """
    with opened_log(log) as source:
        state = source.group(group)
        if state is None:
            command = on_same_log("streamtopo groups list", log)
            raise LogError(f'there is no group "{group}" in {shown_log(log)}; list the groups: {command}')
        found = partition_lags(source, state)
    members = sorted(state.members)
    if as_json:
        rows = [row._asdict() | {"time": _time_to_json(row.time)} for row in found]
        show_json({"group": group, "members": members, "partitions": rows})
        return
    click.echo(f"{group}: {counted(len(members), 'member')}" + "".join(f", {member}" for member in members))
    columns = {name: name for name in PartitionLag._fields}
    show_rows([row._asdict() | {"time": _time_text(row.time)} for row in found], columns | {"time": "time waits for"})


def partition_lags(log: Log, state: GroupState) -> list[PartitionLag]:
    owners = {partition: member for member, owned in state.members.items() for partition in owned}
    return [
        _partition_lag(log, partition, state, owners.get(partition))
        for partition in sorted({*state.positions, *owners})
    ]


def _partition_lag(log: Log, partition: TopicPartition, state: GroupState, owner: str | None) -> PartitionLag:
    position, end = state.positions.get(partition), log.end(partition)
    if position is None:
        return PartitionLag(*partition, None, end, None, owner)
    lag = max(0, end - position.offset)
    return PartitionLag(*partition, position.offset, end, lag, owner, time_in(position.metadata))


def _time_text(known: TimeInPosition | None) -> str | None:
    """Of the last commit; None unless rows were seen past the time of the slowest task."""
    if known is None or not known.held_back:
        return None
    task = f"task {known.waited_for.origin}"
    if known.waited_for.time is None:
        return f"{task}, not started"
    if known.time < 0:
        return f"{task}, no records yet"
    return f"{task}, {spoken(known.seen - known.time)} behind"


def _time_to_json(known: TimeInPosition | None) -> dict[str, object] | None:
    if known is None:
        return None
    origin, time, caught_up = known.waited_for
    slowest = {"task": str(origin), "time": time, "caught_up": caught_up}
    return {"time": known.time, "seen": known.seen, "slowest": slowest}


def _totals(found: Iterable[PartitionLag]) -> dict[str, int | None]:
    found = list(found)
    known = not any(row.lag is None and row.end for row in found)
    return {"partitions": len(found), "lag": sum(row.lag or 0 for row in found) if known else None}
