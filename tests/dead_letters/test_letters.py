"""What is read from the headers of letters: ours, and those of other programs."""

from __future__ import annotations

from streamtopo.dead_letters import headers as names
from streamtopo.dead_letters.letters import letter_of
from streamtopo.processors import Record
from streamtopo.records import Headers, TopicPartition
from tests.dead_letters.writing import failure


def record(*headers: tuple[str, bytes | None]) -> Record:
    return Record(b"k", b"v", 5, headers)


def test_a_letter_of_ours() -> None:
    letter = letter_of(record(*failure(7, own=(("trace", b"1"),), partition=3, PLACE="to_cents, orders.py:31")))
    assert letter.record == record(("trace", b"1"))
    assert (letter.source, letter.offset) == (TopicPartition("amounts", 3), 7)
    assert (letter.exception, letter.message) == ("ValueError", "bad amount 7")
    assert (letter.node, letter.stage, letter.task) == ("to-cents", "step", "0_3")
    assert (letter.application, letter.attempts) == ("orders", 1)
    assert letter.place == "to_cents, orders.py:31"
    assert (letter.call, letter.cut) == (None, None)


def test_a_letter_of_kafka_streams() -> None:
    """As ExceptionHandlerUtils of kafka-streams 4.2.0 writes it for an exception without a message."""
    letter = letter_of(
        record(
            ("__streams.errors.exception", b"java.lang.NullPointerException"),
            ("__streams.errors.message", None),
            ("__streams.errors.stacktrace", b"java.lang.NullPointerException\n\tat V.main(V.java:12)\n"),
            ("__streams.errors.topic", b"orders"),
            ("__streams.errors.partition", b"3"),
            ("__streams.errors.offset", b"41207"),
        )
    )
    assert (letter.exception, letter.message) == ("java.lang.NullPointerException", None)
    assert (letter.source, letter.offset, letter.node) == (TopicPartition("orders", 3), 41207, None)
    assert letter.record == record()


def test_a_letter_of_kafka_connect() -> None:
    letter = letter_of(
        record(
            ("own", None),
            ("__connect.errors.topic", b"orders"),
            ("__connect.errors.partition", b"3"),
            ("__connect.errors.offset", b"41207"),
            ("__connect.errors.connector.name", b"jdbc-sink"),
            ("__connect.errors.task.id", b"0"),
            ("__connect.errors.stage", b"VALUE_CONVERTER"),
            ("__connect.errors.class.name", b"org.apache.kafka.connect.json.JsonConverter"),
            ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
            ("__connect.errors.exception.message", b"Converting byte[] failed"),
            ("__connect.errors.exception.stacktrace", b"org.apache..."),
        )
    )
    assert letter.exception == "org.apache.kafka.connect.errors.DataException"
    assert (letter.source, letter.offset) == (TopicPartition("orders", 3), 41207)
    assert (letter.application, letter.task, letter.stage) == ("jdbc-sink", "0", "VALUE_CONVERTER")
    assert letter.node == "org.apache.kafka.connect.json.JsonConverter"
    assert letter.record == record(("own", None))


SPRING: Headers = (
    ("kafka_dlt-exception-fqcn", b"org.springframework.kafka.listener.ListenerExecutionFailedException"),
    ("kafka_dlt-exception-cause-fqcn", b"java.lang.IllegalArgumentException"),
    ("kafka_dlt-exception-message", b"Listener failed"),
    ("kafka_dlt-exception-stacktrace", b"org..."),
    ("kafka_dlt-original-topic", b"orders"),
    ("kafka_dlt-original-partition", (3).to_bytes(4, "big")),
    ("kafka_dlt-original-offset", (41207).to_bytes(8, "big")),
    ("kafka_dlt-original-timestamp", (1_700_000_000_000).to_bytes(8, "big")),
    ("kafka_dlt-original-timestamp-type", b"CreateTime"),
    ("kafka_dlt-original-consumer-group", b"billing"),
)


def test_a_letter_of_spring_has_the_time_of_the_record_in_a_header() -> None:
    letter = letter_of(record(*SPRING))
    assert letter.record == Record(b"k", b"v", 1_700_000_000_000)
    assert (letter.source, letter.offset) == (TopicPartition("orders", 3), 41207)
    assert (letter.exception, letter.application) == ("java.lang.IllegalArgumentException", "billing")


def test_a_record_that_was_a_letter_before_gets_its_headers_back() -> None:
    """A program that reads dead letters, of its own kind or another's, can fail as well."""
    for earlier in (failure(1, topic="first"), SPRING):
        letter = letter_of(record(*earlier, *failure(2, topic="second")))
        assert (letter.source, letter.offset) == (TopicPartition("second", 0), 2)
        assert letter.record.headers == earlier


def test_headers_that_cannot_be_read_are_as_if_absent() -> None:
    letter = letter_of(record((names.EXCEPTION, b"caf\xff"), (names.PARTITION, b"x"), (names.TOPIC, b"t")))
    assert (letter.exception, letter.source) == ("caf\\xff", None)


def test_any_record_is_a_letter() -> None:
    letter = letter_of(record(("trace", b"1")))
    assert (letter.record, letter.exception, letter.source) == (record(("trace", b"1")), None, None)
