"""`messages`: which fields a message accepts."""

from __future__ import annotations

from typing import Any

import pytest

from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey

BROKER = {"node_id": 1, "host": "h", "port": 9}


def encode_metadata(version: int, fields: dict[str, Any]) -> bytes:
    return messages.encode_response(ApiKey.METADATA, version, fields)


@pytest.mark.parametrize("version", [0, 9, 13])
def test_a_field_that_no_version_has_is_refused(version: int) -> None:
    with pytest.raises(TypeError, match="no version of this response has the field brokerz"):
        encode_metadata(version, {"brokers": [BROKER], "brokerz": []})


@pytest.mark.parametrize("version", [0, 9, 13])
def test_a_field_that_no_version_has_is_refused_in_a_nested_struct(version: int) -> None:
    with pytest.raises(TypeError, match="has the field hosts in brokers"):
        encode_metadata(version, {"brokers": [BROKER | {"hosts": "h"}]})


def test_a_field_of_another_version_is_left_out() -> None:
    newer = {"cluster_id": "c", "brokers": [BROKER | {"rack": "r"}]}
    assert encode_metadata(0, newer) == encode_metadata(0, {"brokers": [BROKER]})
    # Only v8-v10 have the authorized operations of the cluster.
    newest = {"error_code": 0}
    older = newest | {"cluster_authorized_operations": 5}
    assert encode_metadata(13, older) == encode_metadata(13, newest)


def test_requests_are_checked_too() -> None:
    with pytest.raises(TypeError, match="no version of this request has the field groups"):
        messages.encode_request(ApiKey.HEARTBEAT, 4, {"group_id": "g", "groups": ["g"]})
