"""Request time in percent: what counts, and what a throttled response looks like."""

from __future__ import annotations

from typing import Any

import pytest

from local_cluster.handlers.deferred import ThrottledBody
from local_cluster.handlers.services import RequestContext
from local_cluster.quotas.client_quotas import ClientQuotas
from local_cluster.quotas.entity import USER, entity
from local_cluster.server.request_time import THROTTLE_TIME_FIRST_SINCE, RequestTime
from local_cluster.wire.api import ApiKey

BUSY_NS = 300_000_000
"""Of one second over ten windows: 3 percent."""


def context(api: ApiKey, version: int = 3) -> RequestContext:
    return RequestContext(api, version, 1, "x", "User:a", "L", "h", 1)


@pytest.fixture
def counted() -> RequestTime:
    quotas = ClientQuotas({})
    quotas.set_quotas({entity({USER: "a"}): {"request_percentage": 2.0}})
    assert quotas.request.is_used
    return RequestTime(quotas.request, lambda: 0)


def test_a_slow_client_waits_at_most_one_window(counted: RequestTime) -> None:
    reply = {"groups": ()}
    throttled = counted.count(context(ApiKey.LIST_GROUPS), reply, BUSY_NS)
    assert isinstance(throttled, ThrottledBody)
    assert throttled.throttle_ms == 1_000
    assert throttled.body == {"groups": (), "throttle_time": 1_000}
    assert "throttle_time" not in reply


def test_a_quick_client_does_not_wait(counted: RequestTime) -> None:
    reply: dict[str, Any] = {"groups": ()}
    assert counted.count(context(ApiKey.LIST_GROUPS), reply, BUSY_NS // 2) is reply


@pytest.mark.parametrize(("version", "body"), [(-1, bytes(8)), (0, b"\0\0\x03\xe8" + bytes(4))])
@pytest.mark.parametrize(("api", "since"), THROTTLE_TIME_FIRST_SINCE.items())
def test_encoded_responses(
    counted: RequestTime, api: ApiKey, since: int, version: int, body: bytes
) -> None:
    throttled = counted.count(context(api, since + version), bytes(8), BUSY_NS)
    assert isinstance(throttled, ThrottledBody)
    assert throttled.body == body


def test_versions_without_a_throttle_time_mute_all_the_same(counted: RequestTime) -> None:
    throttled = counted.count(context(ApiKey.LIST_GROUPS, 0), {"groups": ()}, BUSY_NS)
    assert isinstance(throttled, ThrottledBody)
    assert throttled.body == {"groups": ()}


def test_the_longer_of_two_throttles_holds(counted: RequestTime) -> None:
    longer = ThrottledBody({"topics": (), "throttle_time": 5_000}, 5_000)
    assert counted.count(context(ApiKey.CREATE_TOPICS), longer, BUSY_NS) is longer
    shorter = ThrottledBody({"topics": (), "throttle_time": 5}, 5)
    throttled = counted.count(context(ApiKey.CREATE_TOPICS), shorter, BUSY_NS)
    assert isinstance(throttled, ThrottledBody)
    assert throttled.body == {"topics": (), "throttle_time": 1_000}


@pytest.mark.parametrize("api", [ApiKey.ALTER_PARTITION, ApiKey.WRITE_TXN_MARKERS, ApiKey.FETCH])
def test_requests_between_brokers_do_not_count(counted: RequestTime, api: ApiKey) -> None:
    assert counted.count(context(api), b"", BUSY_NS) == b""
    assert counted.rates.wait_ms("User:a", "x", 0) == 0


def test_a_produce_counts_for_the_next_request(counted: RequestTime) -> None:
    assert counted.count(context(ApiKey.PRODUCE), b"answer", BUSY_NS) == b"answer"
    assert counted.rates.wait_ms("User:a", "x", 0) == 1_000
