"""The probe against Apache Kafka with SASL over TLS, and the rights in audit-and-probes.md."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from aggregator.probe.link_probe import LinkProbe, ProbeState, link_probes
from aggregator.probe.prober import Prober
from aggregator.probe.settings import ProbeSettings
from aggregator.settings import AggregatorSettings, LinkSettings
from local_cluster.client.auth.security import Secret
from local_cluster.client.client import KafkaClient
from local_cluster.wire.constants import AclOperation, ResourceType
from mirror_maker.formats.naming import TopicNames
from mirror_maker.formats.probe import probe_topic_name
from tests.support.secure_kafka import running_secure_kafka

pytestmark = [pytest.mark.real, pytest.mark.oracle]

WAIT_SECONDS_MAX = 120.0
LINK = "a-b"
TOPIC = probe_topic_name(LINK)
ARRIVALS = 10
QUICK = ProbeSettings(interval_ms=100, silent_ms=3_000, send_ms_max=2_000)


def monotonic_ms() -> float:
    return time.monotonic() * 1000


async def until(condition: Callable[[], bool], probe: LinkProbe) -> None:
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while not condition():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(probe.verdict(monotonic_ms())) from None


async def test_a_probe_with_the_rights_of_the_readme_and_no_others(tmp_path: Path) -> None:
    """One cluster is source and target: with identical names the probe topic is its own copy."""
    async with contextlib.AsyncExitStack() as stack:
        secure = await stack.enter_async_context(running_secure_kafka(tmp_path))
        admin = await stack.enter_async_context(KafkaClient(secure.plain_bootstrap))
        for name in ("sender", "reader"):
            await secure.add_user(admin, name)
        link = LinkSettings(
            name=LINK,
            datacenter="a",
            source="a",
            source_bootstrap=secure.bootstrap,
            source_security=secure.security("sender"),
            names=TopicNames(otherwise="identity"),
            probe=True,
        )
        settings = AggregatorSettings(
            aggregate="b",
            bootstrap=secure.bootstrap,
            security=secure.security("reader", "SCRAM-SHA-256"),
            links=(link,),
            probe=QUICK,
            ready_file="-",
        )
        probes = link_probes(settings, run_id="5eed", now_ms=monotonic_ms())
        probe = probes[LINK]
        assert probe.copy == TOPIC

        def start() -> asyncio.Task[None]:
            prober = Prober(
                settings,
                why_unreadable=lambda at: None,
                on_latency=lambda link, latency_ms: None,
                monotonic_ms=monotonic_ms,
            )
            prober.follow(probes)
            return asyncio.create_task(prober.run())

        # Where the aggregator's principal does not even see the copy, nobody tries to read it.
        await secure.allow(admin, "reader", ResourceType.TOPIC, TOPIC, [AclOperation.DESCRIBE])
        running = start()
        # What is refused is said, with the topic; the probe tries again until it is granted.
        await until(lambda: TOPIC in (probe.send_problem or ""), probe)
        rights = [AclOperation.CREATE, AclOperation.WRITE]
        await secure.allow(admin, "sender", ResourceType.TOPIC, TOPIC, rights)
        await until(lambda: probe.ledger.sent > 0, probe)
        await until(lambda: TOPIC in (probe.read_problem or ""), probe)
        assert probe.ledger.received == 0
        await secure.allow(admin, "reader", ResourceType.TOPIC, TOPIC, [AclOperation.READ])
        await until(lambda: probe.ledger.received >= ARRIVALS, probe)
        assert probe.verdict(monotonic_ms()).state is ProbeState.OK
        assert (probe.send_problem, probe.read_problem) == (None, None)
        running.cancel()
        await asyncio.wait([running])

        # Who may only write does with the topic that is there.
        await secure.add_user(admin, "writer")
        await secure.allow(admin, "writer", ResourceType.TOPIC, TOPIC, [AclOperation.WRITE])
        written = replace(link, source_security=secure.security("writer"))
        settings = replace(settings, links=(written,))
        probes = link_probes(settings, run_id="5eed1", now_ms=monotonic_ms())
        probe = probes[LINK]
        running = start()
        await until(lambda: probe.ledger.received >= ARRIVALS, probe)
        running.cancel()
        await asyncio.wait([running])

        # A wrong password is said too, and is not in what is said.
        wrong = tmp_path / "wrong"
        wrong.write_text("of-nobody")
        wrongly = replace(link.source_security, password=Secret(file=str(wrong)))
        settings = replace(settings, links=(replace(link, source_security=wrongly),))
        probes = link_probes(settings, run_id="5eed2", now_ms=monotonic_ms())
        probe = probes[LINK]
        running = start()
        await until(lambda: probe.send_problem is not None, probe)
        assert "of-nobody" not in str(probe.send_problem)
        running.cancel()
        await asyncio.wait([running])
