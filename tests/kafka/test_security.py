"""TLS, SASL/SCRAM and OAuth with a broker that requires them; every client setting can be given."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from streamtopo.broker import Cluster
from streamtopo.broker.node import free_port
from streamtopo.errors import LogError
from streamtopo.logs import Topic
from streamtopo.logs.kafka import KafkaLog
from streamtopo.logs.opening import open_log
from streamtopo.records import Columns, TopicPartition
from tests.logs.records import values

pytestmark = pytest.mark.kafka
USER, PASSWORD = "alice", "wonder & land"
READER = "dodo"
"""A user who may read one topic."""
OUT = TopicPartition("out", 0)


class Secured(NamedTuple):
    """A broker that accepts clients with TLS and a password, and at another address clients with a token."""

    address: str
    certificate: Path
    """The broker's certificate, to verify it."""
    for_tokens: str


@pytest.fixture(scope="module")
def secured(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    plain, controller, safe, tokens = (free_port() for _ in range(4))
    made = Cluster(folder / "cluster")
    made.up(
        port=0,
        config={
            "listeners": f"PLAINTEXT://127.0.0.1:{plain},SAFE://127.0.0.1:{safe},TOKENS://127.0.0.1:{tokens},"
            f"CONTROLLER://127.0.0.1:{controller}",
            "controller.quorum.voters": f"0@127.0.0.1:{controller}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SAFE:SASL_SSL,TOKENS:SASL_PLAINTEXT"
            ),
            "listener.name.safe.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.tokens.oauthbearer.sasl.jaas.config": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
                'unsecuredLoginStringClaim_sub="broker";'
            ),
            "listener.name.safe.scram-sha-256.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{USER}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": certificate.read_text().replace("\n", " \\\n"),
            "ssl.keystore.key": key.read_text().replace("\n", " \\\n"),
        },
    )
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{plain}"})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    credentials: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(user, info, PASSWORD.encode()) for user in (USER, READER)
    ]
    read = (f"User:{READER}", "*", AclOperation.READ, AclPermissionType.ALLOW)
    shown = AclBinding(ResourceType.TOPIC, "shown-to-some", ResourcePatternType.LITERAL, *read)
    for future in (*admin.alter_user_scram_credentials(credentials).values(), *admin.create_acls([shown]).values()):
        future.result()
    yield Secured(f"127.0.0.1:{safe}", certificate, f"127.0.0.1:{tokens}")
    made.down()


def url(secured: Secured, **more: str) -> str:
    options = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(secured.certificate),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    } | {name.replace("_", "."): value for name, value in more.items()}
    return f"kafka://{secured.address}?" + "&".join(f"kafka.{name}={quote(value)}" for name, value in options.items())


def test_records_are_sent_over_tls_with_a_password(secured: Secured) -> None:
    log = open_log(url(secured, compression_type="lz4"))
    assert isinstance(log, KafkaLog)
    log.create(Topic("out", 1))
    member = log.join("g", [("out",)])
    while not member.assignment():
        member.poll(1, 0.1)
    member.send(OUT, Columns([b"k"], [b"v"], [5]))
    assert member.commit({}).ends == {OUT: 1}
    member.leave()
    assert values(log, OUT) == [b"v"]
    log.close()


def test_records_are_sent_with_a_token(secured: Secured) -> None:
    settings = "kafka.security.protocol=SASL_PLAINTEXT&kafka.sasl.mechanism=OAUTHBEARER"
    settings += "&kafka.enable.sasl.oauthbearer.unsecure.jwt=true&kafka.sasl.oauthbearer.config=principal%3Dalice"
    log = open_log(f"kafka://{secured.for_tokens}?{settings}")
    assert isinstance(log, KafkaLog)
    log.create(Topic("shown", 1))
    target = TopicPartition("shown", 0)
    assert log.append(target, Columns([b"k"], [b"v"], [5])) == 1
    assert values(log, target) == [b"v"]
    log.close()


def test_a_topic_whose_config_is_not_readable_still_exists(secured: Secured) -> None:
    name = "shown-to-some"
    everything = open_log(url(secured))
    for one in (name, "hidden"):
        everything.create(Topic(one, 1, {"cleanup.policy": "compact"}))
    everything.append(TopicPartition(name, 0), Columns([b"k"], [b"v"], [5]))
    little = open_log(url(secured, sasl_username=READER))
    assert isinstance(little, KafkaLog)
    ((found, topic),) = little.topics().items()
    assert (found, topic.config, topic.config_known) == (name, {}, False)
    assert values(little, TopicPartition(name, 0)) == [b"v"]
    little.close()
    everything.close()


def test_settings_come_from_the_environment_too(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMTOPO_KAFKA_SASL_PASSWORD", PASSWORD)
    address = url(secured).partition("&kafka.sasl.password")[0]
    with_password = open_log(address)
    assert "out" in with_password.topics()
    with_password.close()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sasl_password": "wrong"}, "the brokers at .* refuse the connection: .*Authentication failed"),
        ({"no_such_setting": "1"}, 'No such configuration property: "no.such.setting"'),
        ({"group_id": "mine"}, 'the client setting "group.id" cannot be chosen: it is the application\'s id'),
    ],
)
def test_mistakes_are_reported(secured: Secured, more: dict[str, str], message: str) -> None:
    with pytest.raises(LogError, match=message):
        open_log(url(secured, **more))
