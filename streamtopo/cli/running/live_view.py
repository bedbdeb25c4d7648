"""The live view of a worker on a terminal: its numbers, stores being restored, and the results of a demo."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from streamtopo.cli.running.demo import Top
from streamtopo.cli.running.progress import ProgressUpdate, lag_text, lost_text, waits
from streamtopo.engine.metrics import RestoreProgress

_MAX_STORES = 8
_BAR_WIDTH = 30


class LiveView:
    def __init__(self) -> None:
        self._console = Console(file=sys.stdout)
        self._live = Live(console=self._console, auto_refresh=False)
        self._restoring = RestoreBars(self._console)
        self._live.start()

    def show(self, update: ProgressUpdate) -> None:
        parts: list[RenderableType] = [Text(), _numbers(update)]
        if waiting := waits(update):
            parts += [Text(), *(Text(line, style="yellow") for line in waiting)]
        if update.metrics.restoring:
            parts += [Text(), self._restoring.render(update.metrics.restoring)]
        if update.top:
            parts += [Text(), _top(update.top)]
        self._live.update(Group(*parts), refresh=True)

    def say(self, line: str) -> None:
        self._console.print(Text(line))

    def close(self) -> None:
        self._live.stop()


def _numbers(update: ProgressUpdate) -> Table:
    metrics = update.metrics
    cells = {
        "records/s": f"{update.rate:,.0f}",
        "records": f"{metrics.records:,}",
        "lag": lag_text(metrics),
        "commit": f"{metrics.commit_ms:.1f} ms",
        "tasks": f"{len(metrics.tasks)}",
        "skipped, dropped": ", ".join(lost_text(metrics)) or "none",
    }
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for name in cells:
        table.add_column(name, justify="left" if "," in name else "right", no_wrap=True)
    table.add_row(*map(Text, cells.values()))
    return table


def _top(top: Top) -> Table:
    table = Table(
        title=Text(top.title, style="bold"), title_justify="left", show_header=False, box=None, pad_edge=False
    )
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    most = max((value for _, value in top.rows), default=1) or 1
    for key, value in top.rows:
        table.add_row(Text(str(key)), Text(f"{value:,}"), Text("█" * round(_BAR_WIDTH * value / most), style="cyan"))
    return table


class RestoreBars:
    """A progress bar for each store that is being restored, with its rate and the remaining time."""

    def __init__(self, console: Console) -> None:
        self._bars: dict[tuple[str, int], TaskID] = {}
        columns: tuple[Any, ...] = (
            TextColumn("restoring {task.description}"),
            BarColumn(_BAR_WIDTH),
            TextColumn("{task.percentage:>3.0f} %"),
            _Speed(),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=console, auto_refresh=False)

    def render(self, stores: tuple[RestoreProgress, ...]) -> RenderableType:
        now = {(store.store, store.partition): store for store in stores[:_MAX_STORES]}
        for gone in self._bars.keys() - now.keys():
            self._progress.remove_task(self._bars.pop(gone))
        for key, store in now.items():
            if key not in self._bars:
                name = f"{store.store} {store.partition}"
                self._bars[key] = self._progress.add_task(name, completed=store.done, total=store.total)
            self._progress.update(self._bars[key], completed=store.done, total=store.total)
        more = len(stores) - len(now)
        return Group(self._progress, Text(f"and {more} more")) if more else self._progress


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f} records/s" if task.speed else "")
