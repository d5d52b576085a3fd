"""Znodes: whoever reaches ZooKeeper's port can write what brokers and `heliograph up` read there.

An input is the name of a decoder, a line feed and the payload. Nothing reads `/feature` and the
notifications of failed log directories: their payloads are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from local_cluster.client.auth.scram import HASHES
from local_cluster.controller.member import registered_access
from local_cluster.controller.model import broker_znodes, config_znodes, topic_znodes
from local_cluster.controller.model.znode_json import UnreadableZnodeError, decode_uuid
from local_cluster.quotas.entity import IP, USER, Entity
from local_cluster.quotas.quota_keys import decode_values
from local_cluster.security.authentication.scram_credentials import (
    credential_of,
    decode_credential,
    encode_credential,
)
from local_cluster.security.authorization import acl_znodes
from local_cluster.security.authorization.acl_image import Entry, Resource
from local_cluster.wire.constants import (
    Acl,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.hostile.target import Target
from topology.deployment.rights_difference import (
    OwnedRights,
    UserKey,
    decode_owned,
    encode_owned,
)

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "zookeeper_kafka_3_9_1.txt"
CREDENTIAL: Final = encode_credential(credential_of("SCRAM-SHA-256", "pencil", b"salt"))
SECRET: Final = CREDENTIAL.split(",")[1][:32]
"""The begin of the stored key in the corpus: no refusal may repeat it."""
OF_A_USER: Final[Entity] = ((USER, "u"),)
OF_AN_ADDRESS: Final[Entity] = ((IP, "10.0.0.1"),)


def read_broker(payload: bytes) -> object:
    found = broker_znodes.decode_broker(1, payload, broker_epoch=7)
    assert all(-1 <= port <= 65_535 for _, port in found.listeners.values()), found
    return found.host.encode(), (found.rack or "").encode()


def read_access(payload: bytes) -> object:
    found = registered_access.decode_access(payload)
    assert found is None or found.inter_broker_listener in found.protocols
    return found


def read_topic(payload: bytes) -> object:
    found = topic_znodes.decode_topic(payload)
    for replicas in (found.replicas, found.adding, found.removing):
        for partition, ids in replicas.items():
            assert partition in found.replicas, found
            assert len(set(ids)) == len(ids) and min(ids, default=0) >= 0, found
    return found


def read_config(payload: bytes) -> object:
    found = config_znodes.decode_config(payload)
    return "".join([*found, *found.values()]).encode()


def read_user(payload: bytes) -> object:
    """Read the quotas and the credentials of a user."""
    config = config_znodes.decode_config(payload)
    quotas = decode_values(OF_A_USER, config)
    assert all(0 <= value < float("inf") for value in quotas.values()), quotas
    return quotas, [decode_credential(config[name]) for name in HASHES if name in config]


def read_owned(payload: bytes) -> object:
    """Read the list of rights of `heliograph up`; its error is any ValueError of its own."""
    try:
        return encode_owned(decode_owned(payload))
    except ValueError as error:
        raise UnreadableZnodeError(str(error)) from error


DECODERS: Final[Mapping[str, Callable[[bytes], object]]] = {
    "broker": read_broker,
    "access": read_access,
    "topic": read_topic,
    "state": topic_znodes.decode_state,
    "controller": broker_znodes.decode_controller,
    "controller-epoch": broker_znodes.decode_controller_epoch,
    "cluster": broker_znodes.decode_cluster_id,
    "producer-ids": broker_znodes.next_producer_id_block,
    "config": read_config,
    "config-change": config_znodes.decode_config_change,
    "partitions": topic_znodes.decode_partitions,
    "reassignments": topic_znodes.decode_reassignments,
    "user": read_user,
    "address": lambda payload: decode_values(OF_AN_ADDRESS, config_znodes.decode_config(payload)),
    "acls": acl_znodes.decode_entries,
    "acl-change": lambda payload: acl_znodes.decode_change(PatternType.LITERAL, payload),
    "prefixed-acl-change": lambda payload: acl_znodes.decode_change(PatternType.PREFIXED, payload),
    "rights": read_owned,
}
GOLDEN_DECODERS: Final = {
    "/brokers/ids/1": "broker",
    "/brokers/topics/orders": "topic",
    "/brokers/topics/orders/partitions/0/state": "state",
    "/brokers/topics/away/partitions/0/state": "state",
    "/cluster/id": "cluster",
    "/config/topics/orders": "config",
    "/controller": "controller",
    "/controller_epoch": "controller-epoch",
    "/latest_producer_id_block": "producer-ids",
}
"""Decoders by the paths of Kafka's own znodes."""


@lru_cache
def _corpus() -> tuple[bytes, ...]:
    lines = (line.split(" ", 1) for line in GOLDEN.read_text().splitlines())
    golden = [
        (GOLDEN_DECODERS[path], text.encode()) for path, text in lines if path in GOLDEN_DECODERS
    ]
    return tuple(name.encode() + b"\n" + payload for name, payload in (*golden, *_ours()))


def _ours() -> list[tuple[str, bytes]]:
    """Return payloads of which Kafka's own are not recorded."""
    user = {"SCRAM-SHA-256": CREDENTIAL, "producer_byte_rate": "1024"}
    moving = topic_znodes.TopicAssignment(
        decode_uuid("F6jEpkysS6qCC37z8OH69w"), {0: (1, 2, 3)}, {0: (3,)}, {0: (1,)}
    )
    acls = frozenset({Entry("User:u", "*", AclOperation.READ, Permission.ALLOW)})
    literal = Resource(ResourceType.TOPIC, PatternType.LITERAL, "orders")
    prefixed = literal._replace(pattern_type=PatternType.PREFIXED)
    owned = OwnedRights(
        users=frozenset({UserKey("u", "SCRAM-SHA-256")}),
        acls=frozenset({Acl(2, "orders", 3, "User:u", "*", 3, 3)}),
    )
    return [
        ("topic", topic_znodes.encode_topic(moving)),
        ("broker", b'{"version":1,"host":"h","port":9092}'),
        (
            "access",
            b'{"listener_security_protocol_map":{"P":"PLAINTEXT"},"heliograph":{'
            b'"inter_broker_listener":"P","principal":"User:b","trusted_listeners":["P"],'
            b'"broker_principals":["User:b"],"authorizer":"dry_run"}}',
        ),
        ("config-change", config_znodes.encode_config_change("topics", "orders")),
        ("config-change", b'{"version":1,"entity_type":"topics","entity_name":"orders"}'),
        ("partitions", b'{"version":1,"partitions":[{"topic":"orders","partition":0}]}'),
        ("reassignments", topic_znodes.encode_reassignments({("orders", 0): (2, 1)})),
        ("user", config_znodes.encode_config(user)),
        ("address", config_znodes.encode_config({"connection_creation_rate": "5"})),
        ("acls", acl_znodes.encode_entries(acls)),
        ("acl-change", acl_znodes.encode_change(literal)[1]),
        ("prefixed-acl-change", acl_znodes.encode_change(prefixed)[1]),
        ("rights", encode_owned(owned)),
    ]


def read_znode(content: bytes) -> object:
    """Read a payload by its decoder. No refusal repeats a secret."""
    name, _, payload = content.partition(b"\n")
    decode = DECODERS.get(name.decode("ascii", "replace"))
    if decode is None:
        raise UnreadableZnodeError("no such decoder")
    try:
        return decode(payload)
    except UnreadableZnodeError as error:
        assert name != b"user" or SECRET not in str(error), "a refusal with a secret"
        raise
    except OverflowError:
        assert name == b"producer-ids", "only producer ids can be used up"
        raise UnreadableZnodeError("no producer ids are left") from None


ZNODES: Final = Target("znodes", _corpus, read_znode, (UnreadableZnodeError,), 20)
