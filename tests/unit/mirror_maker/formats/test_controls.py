"""An operator's orders to a link, and the rates that they set."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.throttle import Throttle
from mirror_maker.formats import MapTopic, encode_record
from mirror_maker.formats.controls import Controls, PausedPart, StillPausedError
from mirror_maker.settings import LinkSettings, MirrorSettings
from mirror_maker.worker import service
from mirror_maker.worker.service import MirrorService


def test_a_link_a_topic_and_a_partition_can_be_paused() -> None:
    for part, expected in (
        (PausedPart(), [True, True, True]),
        (PausedPart("t"), [True, True, False]),
        (PausedPart("t", 1), [False, True, False]),
    ):
        controls = Controls().pause(part)
        assert [controls.pauses(*at) for at in (("t", 0), ("t", 1), ("u", 1))] == expected
    assert not Controls().pauses("t", 0)


def test_resuming_a_part_resumes_everything_in_it() -> None:
    parts = (PausedPart("t", 1), PausedPart("t", 2), PausedPart("u"))
    controls = Controls()
    for part in parts:
        controls = controls.pause(part)
    assert controls.resume(PausedPart("t", 1)).paused == {parts[1], parts[2]}
    assert controls.resume(PausedPart("t")).paused == {parts[2]}
    assert controls.resume(PausedPart()).paused == frozenset()
    assert controls.resume(PausedPart("v")) == controls


def test_a_part_of_a_paused_part_cannot_be_resumed() -> None:
    for paused, wanted in (
        (PausedPart(), PausedPart("t")),
        (PausedPart(), PausedPart("t", 0)),
        (PausedPart("t"), PausedPart("t", 0)),
    ):
        with pytest.raises(StillPausedError):
            Controls().pause(paused).resume(wanted)


def test_the_last_controls_hold() -> None:
    topic = MapTopic()
    for controls in (Controls().pause(PausedPart("t")), Controls(source_bytes_per_second=5)):
        topic.replay(*encode_record(controls))
    assert topic.controls == Controls(source_bytes_per_second=5)


def test_the_rate_holds_over_time() -> None:
    throttle = Throttle()
    throttle.set_rate(1_000, 0)
    now_ms = passed = 0
    while now_ms < 60_000:
        delay_ms = throttle.delay_ms(now_ms)
        if delay_ms:
            now_ms += delay_ms
            continue
        throttle.spend(700, now_ms)
        passed += 700
    assert 59_000 <= passed <= 61_000


def test_a_rate_can_change_and_end_while_there_is_a_debt() -> None:
    throttle = Throttle()
    assert throttle.delay_ms(0) == 0
    throttle.spend(10**9, 0)  # without a rate there is no debt
    throttle.set_rate(1_000, 0)
    assert throttle.delay_ms(0) == 0
    throttle.spend(10_000, 0)
    assert throttle.delay_ms(0) == 10_000
    throttle.set_rate(10_000, 5_000)
    assert throttle.delay_ms(5_000) == 500
    throttle.set_rate(0, 5_000)
    assert throttle.delay_ms(5_000) == 0


async def test_an_order_to_a_silent_target_times_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = LinkSettings(name="a-b", source_alias="a", source_bootstrap="a:1")
    settings = MirrorSettings(
        worker_id="w", target_alias="b", target_bootstrap="b:1", links=(link,), ready_file=""
    )
    worker = MirrorService(settings)

    async def wait_for_ever(change: Any) -> Controls:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(worker._links[0], "control", wait_for_ever)
    monkeypatch.setattr(service, "CONTROL_MS_MAX", 1_000)
    with pytest.raises(KafkaError) as caught:
        await worker.control("a-b", lambda controls: controls)
    assert caught.value.code == ErrorCode.request_timed_out
    assert caught.value.message.startswith("cluster b does not answer within 1 s; it may still be ")
