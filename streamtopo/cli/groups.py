"""streamtopo groups: who works on what, and how far behind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import click

from streamtopo.cli.failures import Commands
from streamtopo.cli.opening import complete_group, opened, opened_or_empty
from streamtopo.cli.options import json_option, log_option
from streamtopo.cli.tables import counted, show_json, show_rows
from streamtopo.errors import LogError
from streamtopo.logs import GroupState, Log
from streamtopo.records import TopicPartition
from streamtopo.redaction import shown_url


class Standing(NamedTuple):
    """Where a group stands in one partition."""

    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int | None
    """None before the first commit, when it depends on where the group starts."""
    owner: str | None


@click.group(cls=Commands)
def groups() -> None:
    """List and describe groups: the workers of one application."""


@groups.command("list")
@log_option
@json_option
def list_groups(log: str, as_json: bool) -> None:
    """List the groups: name, members alive, partitions, records not yet processed (unknown before the first commit).

    \b
    Examples:
      streamtopo groups list --log embedded:elsewhere
      streamtopo groups list --json
    """
    with opened_or_empty(log) as source:
        found = [
            {"group": name, "members": len(state.members)} | _sums(standings(source, state))
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
    """Show the members of GROUP, and for each partition: committed position, end, lag and owner.

    The lag counts offsets; the position of a group that has not committed yet is empty.

    \b
    Examples:
      streamtopo groups describe wordcount
      streamtopo groups describe wordcount --json
    """
    with opened(log) as source:
        state = source.group(group)
        if state is None:
            raise LogError(f'there is no group "{group}" in {shown_url(log)}; list the groups: streamtopo groups list')
        found = [standing._asdict() for standing in standings(source, state)]
    members = sorted(state.members)
    if as_json:
        show_json({"group": group, "members": members, "partitions": found})
        return
    click.echo(f"{group}: {counted(len(members), 'member')}" + "".join(f", {member}" for member in members))
    show_rows(found, {name: name for name in Standing._fields})


def standings(log: Log, state: GroupState) -> list[Standing]:
    owners = {partition: member for member, owned in state.members.items() for partition in owned}
    return [
        _standing(log, partition, state, owners.get(partition)) for partition in sorted({*state.positions, *owners})
    ]


def _standing(log: Log, partition: TopicPartition, state: GroupState, owner: str | None) -> Standing:
    position, end = state.positions.get(partition), log.end(partition)
    if position is None:
        return Standing(*partition, None, end, None, owner)
    return Standing(*partition, position.offset, end, max(0, end - position.offset), owner)


def _sums(found: Iterable[Standing]) -> dict[str, int | None]:
    found = list(found)
    known = not any(standing.lag is None and standing.end for standing in found)
    return {"partitions": len(found), "lag": sum(standing.lag or 0 for standing in found) if known else None}
