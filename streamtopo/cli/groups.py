"""streamtopo groups: the members of groups, their partitions and their lag."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import click

from streamtopo.cli.shared.failures import Commands
from streamtopo.cli.shared.log_access import complete_group, on_same_log, opened_log, opened_log_or_empty
from streamtopo.cli.shared.options import json_option, log_option
from streamtopo.cli.shared.tables import counted, show_json, show_rows
from streamtopo.errors import LogError
from streamtopo.logs import GroupState, Log
from streamtopo.logs.opening import shown_log
from streamtopo.records import TopicPartition


class PartitionLag(NamedTuple):
    """A group's position and lag in one partition."""

    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int | None
    """None before the first commit, because it depends on where the group will start."""
    owner: str | None


@click.group(cls=Commands)
def groups() -> None:
    """List and describe groups: the workers of one application."""


@groups.command("list")
@log_option
@json_option
def list_groups(log: str, as_json: bool) -> None:
    """List the groups with their members, partitions and lag.

    Only members that are alive are counted. The lag is unknown before the first commit.

    \b
    Examples:
      streamtopo groups list --log embedded:elsewhere
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

    For each partition, show the committed position, the end, the lag as a number of offsets, and the owner. Position
    and lag are unknown before the first commit.

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
        found = [row._asdict() for row in partition_lags(source, state)]
    members = sorted(state.members)
    if as_json:
        show_json({"group": group, "members": members, "partitions": found})
        return
    click.echo(f"{group}: {counted(len(members), 'member')}" + "".join(f", {member}" for member in members))
    show_rows(found, {name: name for name in PartitionLag._fields})


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
    return PartitionLag(*partition, position.offset, end, max(0, end - position.offset), owner)


def _totals(found: Iterable[PartitionLag]) -> dict[str, int | None]:
    found = list(found)
    known = not any(row.lag is None and row.end for row in found)
    return {"partitions": len(found), "lag": sum(row.lag or 0 for row in found) if known else None}
