"""Opens a log by its URL. `SCHEMES` has an entry for each kind of log, with all that depends on the kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path

from streamtopo.errors import LogError
from streamtopo.logs import Log
from streamtopo.logs.memory import MemoryLog
from streamtopo.settings.extras import missing
from streamtopo.settings.redaction import shown_url

DEFAULT = "embedded:.streamtopo"


class SparkReader(Enum):
    """What reads the topics of a log in Spark; the value is the name of its format."""

    DATA_SOURCE = "streamtopo"
    """From the directory of the log."""
    KAFKA_CONNECTOR = "kafka"
    """From the brokers."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """A kind of log, and what is known about one before it is opened."""

    open: Callable[[str, Mapping[str, str]], Log]
    """With what its URL has between the scheme and the options, and with the options."""
    forms: tuple[str, ...]
    """How its URLs are written, for messages."""
    options: frozenset[str] = frozenset()
    directory: Callable[[str], Path] | None = None
    """Where its files are, if it keeps them on this machine."""
    exists: Callable[[Path], bool] | None = None
    """Whether there is a log in the directory; None if opening a log never makes one."""
    spark: SparkReader | None = None


class LogUrl:
    """The parts of a URL; the scheme is None if no log has it."""

    def __init__(self, url: str) -> None:
        from urllib.parse import parse_qsl  # it takes long to import

        self.name, _, rest = url.partition(":")
        self.address, _, query = rest.partition("?")
        self.options = dict(parse_qsl(query, keep_blank_values=True))
        self.scheme = SCHEMES.get(self.name)


def open_log(url: str = DEFAULT) -> Log:
    """The log at this URL; each call opens it again.

    >>> open_log("memory:").topics()
    {}
    """
    parts = LogUrl(url)
    if parts.scheme is None:
        forms = ", ".join(form for scheme in SCHEMES.values() for form in scheme.forms)
        raise LogError(f'there is no log "{shown_log(url)}"; a log is one of {forms}')
    known = parts.scheme.options
    for option in [option for option in parts.options if not any(fnmatchcase(option, one) for one in known)]:
        names = ", ".join(sorted(known)) or "none"
        raise LogError(
            f'"{shown_log(url)}" has the option "{option}", which {parts.name}: logs do not have; they have {names}'
        )
    return parts.scheme.open(parts.address, parts.options)


def directory_of(url: str) -> Path | None:
    """The directory of a log that is stored in files on this machine; None for other logs."""
    parts = LogUrl(url)
    return parts.scheme.directory(parts.address) if parts.scheme and parts.scheme.directory else None


def log_exists(url: str) -> bool:
    """False if opening the log would create it. It does not look whether brokers answer."""
    scheme, directory = LogUrl(url).scheme, directory_of(url)
    return scheme is None or scheme.exists is None or directory is None or scheme.exists(directory)


def spark_reader(url: str) -> SparkReader | None:
    scheme = LogUrl(url).scheme
    return scheme.spark if scheme else None


def shown_log(url: str) -> str:
    """The URL with *** for what may be secret; a path may have an @."""
    return shown_url(url, has_path=directory_of(url) is not None)


def _memory(address: str, options: Mapping[str, str]) -> Log:
    return MemoryLog()


def _embedded(address: str, options: Mapping[str, str]) -> Log:
    from streamtopo.logs.embedded import EmbeddedLog

    return EmbeddedLog(_embedded_directory(address), synchronous=options.get("synchronous", "full"))


def _embedded_directory(address: str) -> Path:
    return Path(address or ".streamtopo")


def _embedded_exists(directory: Path) -> bool:
    """Also true if there is a file instead of the directory: opening it raises an error."""
    return directory.is_file() or (directory / "log.db").exists()


def _kafka(address: str, options: Mapping[str, str]) -> Log:
    try:
        from streamtopo.logs.kafka import ClientSettings, KafkaLog
    except ImportError as error:
        if error.name != "confluent_kafka":
            raise
        raise LogError(missing("a kafka: log", "kafka")) from error
    brokers = address.strip("/")
    if not brokers:
        raise LogError("the URL names no broker; write kafka://HOST:PORT, or several with commas between them")
    if "@" in brokers:
        raise LogError(
            f"the URL {shown_url(f'kafka://{brokers}')} contains a user; give it as kafka.sasl.username=… and "
            "kafka.sasl.password=… (STREAMTOPO_KAFKA_SASL_PASSWORD in the environment)"
        )
    if address.rstrip("/") != f"//{brokers}":
        raise LogError(f"the URL of a Kafka log has two slashes: write {shown_url(f'kafka://{brokers}')}")
    return KafkaLog(ClientSettings(brokers, options))


SCHEMES = {
    "embedded": Scheme(
        open=_embedded,
        forms=("embedded:PATH", "embedded:PATH?synchronous=normal"),
        options=frozenset({"synchronous"}),
        directory=_embedded_directory,
        exists=_embedded_exists,
        spark=SparkReader.DATA_SOURCE,
    ),
    "kafka": Scheme(
        open=_kafka,
        forms=("kafka://HOST:PORT",),
        options=frozenset({"kafka.*"}),
        spark=SparkReader.KAFKA_CONNECTOR,
    ),
    "memory": Scheme(open=_memory, forms=("memory:",)),
}
