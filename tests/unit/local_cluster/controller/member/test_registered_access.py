"""What a broker registers about how it reaches the others, and whom it accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local_cluster.controller.member.registered_access import (
    RegisteredAccess,
    access_of,
    authorizer_state,
    decode_access,
)
from local_cluster.controller.member.registration import registration_payload
from local_cluster.controller.model import broker_znodes
from local_cluster.controller.model.znode_json import UnreadableZnodeError
from tests.unit.local_cluster.controller.samples import SETTINGS


def registration(**changes: Any) -> bytes:
    body = json.loads(registration_payload(SETTINGS, {"P": 9}, 1))
    body["heliograph"] |= changes
    return json.dumps(body).encode()


def test_a_registration_is_read_back_and_is_still_kafkas() -> None:
    assert (
        decode_access(registration())
        == access_of(SETTINGS)
        == RegisteredAccess(
            protocols={"P": "PLAINTEXT"},
            inter_broker_listener="P",
            principal=None,
            trusted_listeners=("P",),
            broker_principals=(),
            authorizer="absent",
        )
    )
    assert broker_znodes.decode_broker(1, registration(), broker_epoch=1).listeners.keys() == {"P"}


def test_kafkas_own_registration_says_nothing() -> None:
    payload = broker_znodes.encode_broker(
        [("P", "h", 1)], {"P": "PLAINTEXT"}, rack=None, timestamp_ms=1
    )
    assert decode_access(payload) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"authorizer": "perhaps"},
        {"inter_broker_listener": None},
        {"inter_broker_listener": "X"},
        {"trusted_listeners": "P"},
        {"broker_principals": [1]},
        {"principal": 1},
    ],
)
def test_what_another_version_may_write_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UnreadableZnodeError):
        decode_access(registration(**changes))
    with pytest.raises(UnreadableZnodeError):
        decode_access(b'{"heliograph": 1}')


@pytest.mark.parametrize(
    ("config", "state"),
    [
        ({}, "absent"),
        ({"authorizer.class.name": " "}, "absent"),
        ({"authorizer.class.name": "A"}, "enforcing"),
        ({"authorizer.class.name": "A", "heliograph.authorizer.dry.run": "false"}, "enforcing"),
        ({"authorizer.class.name": "A", "heliograph.authorizer.dry.run": "true"}, "dry_run"),
    ],
)
def test_states_of_an_authorizer(config: dict[str, str], state: str) -> None:
    assert authorizer_state(config) == state
