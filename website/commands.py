"""The pages about commands and options, from what the commands declare."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields

import click

from streamtopo.cli import main
from streamtopo.cli.worker import worker
from streamtopo.settings.config import WorkerConfig

MORE = {
    "on_error": "../operating/errors.md",
    "dead_letter_topic": "../operating/dead-letters.md",
    "guarantee": "../concepts/exactly-once.md",
    "idle_advance": "../concepts/time.md#idle-inputs",
    "max_ahead": "../concepts/time.md#records-from-the-future",
    "origin_idle": "../concepts/time-partitions.md#silent-partitions",
    "max_task_idle": "../concepts/time.md#inputs-that-are-empty-for-a-moment",
    "accept_changes": "../operating/upgrades.md",
    "web_token": "../operating/security.md",
    "web_allowed_hosts": "../operating/security.md",
}
"""Pages that say more about an option of the worker."""


def commands(group: click.Group, path: str = "streamtopo") -> Iterator[tuple[str, click.Command]]:
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def cli_page() -> str:
    """Return the page of all commands."""
    head = """# Commands

All commands with their options, as `--help` shows them. [The command line](../guides/console.md) shows those that you
need most.
A command takes a setting from the option (`--log embedded:data`); without it from the environment (`STREAMTOPO_LOG`);
without that from `[tool.streamtopo]` in `./pyproject.toml` (`log = "embedded:data"`); otherwise it takes the default.
"""
    return "\n".join([head, *(section(name, command) for name, command in commands(main))])


def section(name: str, command: click.Command) -> str:
    """Return what a command does, its examples, and its options."""
    usage = " ".join([name, *command.collect_usage_pieces(click.Context(command))])
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    rows = [(names(option), default(option), meaning(option)) for option in options if option.name != "verbose"]
    return "\n".join([f"## {name}\n", f"```text\n{usage}\n```\n", prose(command.help or ""), *table(rows)])


def prose(help: str) -> str:
    """Return a help text as Markdown. Paragraphs after a backspace keep their lines: they are examples."""
    parts = []
    for paragraph in inspect.cleandoc(help).split("\n\n"):
        if paragraph.startswith("\b\n"):
            _, title, *lines = paragraph.split("\n")
            parts.append(f"{title}\n\n```text\n{inspect.cleandoc(chr(10).join(lines))}\n```\n")
        else:
            parts.append(f"{marked(paragraph)}\n")
    return "\n".join(parts)


def table(rows: list[tuple[str, str, str]]) -> list[str]:
    if not rows:
        return []
    return ["| option | default | |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows), ""]


def names(option: click.Option) -> str:
    value = "" if option.is_flag else f" {option.make_metavar(click.Context(main))}"
    return " ".join(f"`{name}{value}`" for name in option.opts).replace("|", "\\|")


def default(option: click.Option) -> str:
    shown = option.default if option.show_default and not option.is_flag else None
    return "" if shown is None or shown == "" or "Sentinel" in repr(shown) else f"`{shown}`"


def meaning(option: click.Option) -> str:
    return marked(option.help or "").replace("|", "\\|")


def marked(text: str) -> str:
    """Return a text with its options as code, and nothing that Markdown would read as markup."""
    text = re.sub(r"([<*\[])", r"\\\1", text)
    return re.sub(r"(`[^`]*`)|(?<![\w-])(--[a-z][a-z-]+)", lambda found: found[1] or f"`{found[2]}`", text)


def options_table() -> str:
    """Return the options of the worker: those that a program can give, too, and those of the command only."""
    keywords = {field.name for field in fields(WorkerConfig)} | {"log"}
    lines: dict[bool, list[str]] = {True: [], False: []}
    for option in worker.params:
        if isinstance(option, click.Option) and not option.hidden and option.name != "verbose" and option.name:
            more = f" ([more]({MORE[option.name]}))" if option.name in MORE else ""
            row = f"| `{option.opts[0]}` | {default(option)} | {meaning(option)}{more} |"
            lines[option.name in keywords].append(row)
    head = ["| option | default | |", "|---|---|---|"]
    return "\n".join([*head, *lines[True], "", "These options only exist for the command:", "", *head, *lines[False]])
