"""What a scrape says about clients with quotas."""

from __future__ import annotations

from local_cluster.monitoring.quota_families import quota_families
from local_cluster.prometheus_text import render_family
from local_cluster.quotas.client_quotas import ClientQuotas
from local_cluster.quotas.limits import Quotas

QUOTAS: Quotas = {
    (("user", "alice"), ("client-id", "loader")): {"producer_byte_rate": 100.0},
    (("client-id", "reader"),): {"consumer_byte_rate": 1000.0},
    (("user", "bob"),): {"request_percentage": 1.0, "controller_mutation_rate": 2.0},
}


def scraped(quotas: ClientQuotas, now_ms: int) -> set[str]:
    text = "".join(render_family(each) for each in quota_families(quotas, now_ms))
    return {line for line in text.splitlines() if line and not line.startswith("#")}


def test_without_quotas_there_are_no_samples() -> None:
    assert scraped(ClientQuotas({}), 0) == set()


def test_samples_have_the_names_of_the_jmx_exporter() -> None:
    quotas = ClientQuotas({})
    quotas.set_quotas(QUOTAS)
    assert quotas.produce.record("User:alice", "loader", 2_000, 0) == 10_000
    assert quotas.fetch.record("User:carol", "reader", 500, 0) == 0
    assert quotas.request.record("User:bob", "any", 5, 0) == 0
    charge = quotas.mutations.charge("User:bob", "any", is_strict=False, now_ms=lambda: 0)
    charge.take(30)
    assert charge.throttle_ms() == 4_000
    lines = scraped(quotas, 0)
    alice = 'resource="Produce",user="alice",clientId="loader"'
    assert lines == {
        f"kafka_server_quota_byte_rate{{{alice}}} 200.0",
        'kafka_server_quota_byte_rate{resource="Fetch",clientId="reader"} 50.0',
        'kafka_server_quota_request_time{resource="Request",user="bob"} 0.5',
        'kafka_server_quota_tokens{resource="ControllerMutation",user="bob"} -8.0',
        f"kafka_server_quota_throttle_time{{{alice}}} 10000.0",
        'kafka_server_quota_throttle_time{resource="Fetch",clientId="reader"} 0.0',
        'kafka_server_quota_throttle_time{resource="Request",user="bob"} 0.0',
        'kafka_server_quota_throttle_time{resource="ControllerMutation",user="bob"} 4000.0',
        f"heliograph_quota_throttles_total{{{alice}}} 1",
        'heliograph_quota_throttles_total{resource="Fetch",clientId="reader"} 0',
        'heliograph_quota_throttles_total{resource="Request",user="bob"} 0',
        'heliograph_quota_throttles_total{resource="ControllerMutation",user="bob"} 1',
    }


def test_an_average_is_that_of_the_last_eleven_seconds() -> None:
    quotas = ClientQuotas({})
    quotas.set_quotas(QUOTAS)
    quotas.produce.record("User:alice", "loader", 2_000, 0)
    quotas.produce.record("User:alice", "loader", 0, 5_000)
    name = 'kafka_server_quota_throttle_time{resource="Produce",user="alice",clientId="loader"}'
    assert f"{name} 10000.0" in scraped(quotas, 5_000)
    assert f"{name} 0.0" in scraped(quotas, 30_000)
