"""No command shows a password in the log's URL, or the token, in its output or in arguments of processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from streamtopo import host
from streamtopo.cli import main
from streamtopo.cli.running.web_server import WebOptions
from streamtopo.logs.embedded import EmbeddedLog
from streamtopo.logs.kafka.admin import admin
from streamtopo.logs.opening import shown_log
from streamtopo.settings.redaction import Secret, shown_url
from tests.cli.workers import Running, application, until
from tests.hosting.conftest import PATIENCE

PASSWORD, TOKEN = "hunter2", "t0ken-of-queries"
URLS = [
    f"kafka://127.0.0.1:1?kafka.sasl.username=me&kafka.sasl.password={PASSWORD}",
    f"kafka://127.0.0.1:1?kafka.sasl.pasword={PASSWORD}",
    f"kafka://127.0.0.1:1?sasl.password={PASSWORD}",
    f"kafka://me:{PASSWORD}@127.0.0.1:1",
    f"kafka:me:{PASSWORD}@127.0.0.1:1",
    f"kafak://127.0.0.1:1?kafka.sasl.password={PASSWORD}",
    f"kafak://me:{PASSWORD}@127.0.0.1:1",
    f"kafka//me:{PASSWORD}@127.0.0.1:1?kafka.sasl.password={PASSWORD}",
    f"kafka:?kafka.sasl.password={PASSWORD}",
    f"embedded:nowhere?sasl.password={PASSWORD}",
    f"memory:?sasl.password={PASSWORD}",
    f"kafka://127.0.0.1:1?kafka.bootstrap.servers={PASSWORD}",
    f"kafka://127.0.0.1:1?kafka.sasl.mechanism=NONE&kafka.sasl.password={PASSWORD}",
    f"kafka://127.0.0.1:1?kafka.ssl.key.pem={PASSWORD}&kafka.security.protocol=ssl",
]
ARGUMENTS = {
    "consume": ["in"],
    "dlq export": ["counting"],
    "dlq list": ["counting"],
    "dlq purge": ["counting", "--force"],
    "dlq replay": ["counting"],
    "dlq show": ["counting", "0/0"],
    "groups describe": ["counting"],
    "groups list": [],
    "produce": ["in"],
    "query": ["counting", "counts"],
    "reconcile": ["apps.wordcount", "counts", "--master", "local[1]"],
    "reset": ["counting"],
    "rollup": ["apps.wordcount", "--master", "local[1]"],
    "topics compact": ["in"],
    "topics create": ["in", "--partitions", "2"],
    "topics delete": ["in"],
    "topics describe": ["in"],
    "topics list": [],
    "topics plan": ["counting"],
    "topics verify": ["in"],
    "worker": ["counting"],
}
WITH_SPARK = ("reconcile", "rollup")


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


def test_every_command_with_a_log_is_tested() -> None:
    with_log = {name for name, command in commands(main) if any(one.name == "log" for one in command.params)}
    assert with_log == set(ARGUMENTS)


@pytest.mark.parametrize("name", [name for name in ARGUMENTS if name not in WITH_SPARK])
def test_no_output_shows_a_secret(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka")
    application(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(admin, "_FIRST", 0.01)
    arguments = [*name.split(), *ARGUMENTS[name]]
    for url in URLS:
        environment = {"STREAMTOPO_LOG": url, "STREAMTOPO_WEB_TOKEN": TOKEN}
        for more in ("--verbose", "--help"):
            result = CliRunner().invoke(main, [*arguments, more], env=environment, input="")
            assert PASSWORD not in result.output, (url, result.output)
            assert TOKEN not in result.output
            assert result.output or result.exit_code == 0


def test_a_malformed_setting_does_not_show_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(f"[tool]\nstreamtopo = '{URLS[0]}'\n")
    result = CliRunner().invoke(main, ["topics", "list"])
    assert 'has "streamtopo" of type str; it must be a table [tool.streamtopo]' in result.output
    assert PASSWORD not in result.output


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("embedded:/home/me@work/log?synchronous=normal", "embedded:/home/me@work/log?synchronous=normal"),
        ("kafka://a:1,b:2?kafka.linger.ms=5&kafka.ssl.ca.location=/ca", None),
        ("kafka://a:1?kafka.sasl.jaas.config=x", "kafka://a:1?kafka.sasl.jaas.config=***"),
        ("kafka://a:1?hunter2&synchronous", "kafka://a:1?***&***"),
        ("kafka://me:p:w@a:1,me:p@b:1", "kafka://***@b:1"),
        ("me:p@a:1", "me:***@a:1"),
        ("token@a:1,b:1", "***@a:1,b:1"),
        ("//me:p@a", "//***@a"),
        ("kafka://a,b", None),
        ("kafka://[::1]:1,[2001:db8::2%eth0]:1?kafka.client.id=x", None),
        ("kafka://me:p@w:[x]@[::1]:1", "kafka://***@[::1]:1"),
        (
            "kafka://a:1?kafka.sasl.password=p@w&kafka.sasl.username=me@work",
            "kafka://a:1?kafka.sasl.password=***&kafka.sasl.username=me@work",
        ),
        ("kafka://a:1?kafka.client.id=x;kafka.sasl.password=p", "kafka://a:1?kafka.client.id=***"),
        ("kafka://a:1?kafka.sasl.password=p&w?x", "kafka://a:1?kafka.sasl.password=***&***"),
        ("kafka://me:p", "kafka://me:***"),
        ("postgresql://me:p?w@a/d", "postgresql://***@a/d"),
        ("postgresql://me:p?w@a/d?sslpassword=p@w&host=b", "postgresql://***@a/d?sslpassword=***&host=b"),
        ("postgresql://me:p?w=x@a/d", "postgresql://me:***?w=***"),
        ("postgresql://me:p/#=w@a:1,b:2/d", "postgresql://***@a:1,b:2/d"),
        ("postgresql://a/d;password=p", "postgresql://a/d;password=***"),
        ("host=a user=me password=p@w", "host=***"),
        ("sqlite:/home/me@work/a=b:c.db", None),
        ("memory:", None),
        ("", None),
    ],
)
def test_passwords_in_urls_are_hidden(url: str, shown: str | None) -> None:
    found = shown_url(url, has_path=True) if url.startswith("sqlite:") else shown_log(url)
    assert found == (url if shown is None else shown)


def test_the_repr_of_settings_does_not_show_the_token() -> None:
    hosted = host("apps.wordcount", "memory:", token=TOKEN)
    assert hosted.settings.token == TOKEN
    assert TOKEN not in repr(hosted.settings) + repr(WebOptions(1, "127.0.0.1", Secret(TOKEN)))


# -- processes


def arguments_of(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")


def watched(processes: Callable[[], list[int]]) -> list[str]:
    until(lambda: len(processes()) == 2 and all("streamtopo" in arguments_of(one) for one in processes()))
    return [arguments_of(process) for process in processes()]


def test_arguments_of_worker_processes_have_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL of an embedded log has no password, so the directory takes the place of one."""
    monkeypatch.setenv("STREAMTOPO_LOG", f"embedded:{tmp_path}/{PASSWORD}")
    monkeypatch.setenv("STREAMTOPO_WEB_TOKEN", TOKEN)
    running = Running(tmp_path, application(tmp_path), "--processes", "2", "--create-topics", "2", "--web-port", "0")
    try:
        said = watched(running.children)
        with closing(EmbeddedLog(tmp_path / PASSWORD)) as log:
            until(lambda: (group := log.group("counting")) and len(group.members) == 2)
    finally:
        running.interrupt()
        running.end()
        running.kill()
    assert not [one for one in said if PASSWORD in one or TOKEN in one]


def test_arguments_of_an_engine_in_processes_have_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = application(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    url, options = f"embedded:{tmp_path}/{PASSWORD}", {"state_dir": str(tmp_path / "state"), "create_topics": 2}
    with host(name, url, engine="process", processes=2, token=TOKEN, **options) as app:  # type: ignore[arg-type]
        app.ready(PATIENCE)
        said = watched(lambda: [child._process.pid for child in app._engine._pool._living()])  # type: ignore[attr-defined]
    assert not [one for one in said if PASSWORD in one or TOKEN in one]
