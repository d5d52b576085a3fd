"""The probe of one link: its topics, ledger, latencies and verdict. Pure.

starting   no record has arrived yet, for less than `silent_ms`
ok         records arrive
degraded   records were lost, doubled, altered or out of order within `fault_shown_ms`, or no record
           has arrived for `silent_ms`; the reason says which
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from aggregator.probe.latencies import Latencies
from aggregator.probe.ledger import Fault, Faults, Ledger
from aggregator.probe.record import ProbeRecord, decode_probe_record
from aggregator.probe.settings import ProbeSettings
from aggregator.settings import AggregatorSettings, LinkSettings
from mirror_maker.formats.probe import probe_topic_name

SEQUENCES_TOLD_MAX: Final = 5
"""Most sequence numbers in a sentence; `/api/v1/probe` lists more."""

_WORDS: Final = {
    Fault.LOST: "lost",
    Fault.DOUBLED: "doubled",
    Fault.OUT_OF_ORDER: "out of order",
    Fault.ALTERED: "altered",
}


class ProbeState(StrEnum):
    """The state of a link as its probe sees it."""

    STARTING = "starting"
    OK = "ok"
    DEGRADED = "degraded"


class Verdict(NamedTuple):
    """A state, and the reason if it is degraded."""

    state: ProbeState
    reason: str | None


class LinkProbe:
    """The state of one link's probe."""

    def __init__(
        self, link: LinkSettings, settings: ProbeSettings, *, run_id: str, now_ms: float
    ) -> None:
        self.link = link
        self.run_id = run_id
        self.topic = probe_topic_name(link.name)
        """The probe topic on the source."""
        self.copy = link.names.target_topic(link.source, self.topic)
        """The copy on the aggregate; links with `merge` share it."""
        self.ledger = Ledger(settings, now_ms)
        self.latencies = Latencies()
        self.send_problem: str | None = None
        """Why the last record was not sent; None while sending works."""
        self.read_problem: str | None = None
        """Why the copy cannot be read; None while reading works."""
        self._settings = settings

    def next_record(self, now_ms: float, unix_ms: int) -> ProbeRecord:
        """Return the next record to send; the caller reports its delivery to the ledger."""
        return ProbeRecord(self.link.name, self.run_id, self.ledger.begin(now_ms), unix_ms)

    def arrived(
        self, record: ProbeRecord, offset: int, now_ms: float, *, is_intact: bool
    ) -> float | None:
        """Record that a record of this link was read at an offset of the copy.

        Returns its latency in milliseconds if it is new and intact. Intact records of other runs
        are ignored.
        """
        if record.run_id != self.run_id:
            if not is_intact:
                self.ledger.altered(offset, now_ms)
            return None
        latency_ms = self.ledger.arrived(record.sequence, offset, now_ms, is_intact=is_intact)
        if latency_ms is not None:
            self.latencies.observe(latency_ms)
        return latency_ms

    def last_fault_ms(self) -> float | None:
        """Return the time of the latest fault, or None."""
        found = [
            each.last_ms
            for each in self.ledger.faults.values()
            if each.count and each.last_ms is not None
        ]
        return max(found, default=None)

    def verdict(self, now_ms: float) -> Verdict:
        """Return the current verdict."""
        reasons = [
            reason for reason in (self._faults(now_ms), self._silence(now_ms)) if reason is not None
        ]
        if reasons:
            return Verdict(ProbeState.DEGRADED, "; ".join(reasons))
        has_arrived = self.ledger.last_arrival_ms is not None
        return Verdict(ProbeState.OK if has_arrived else ProbeState.STARTING, None)

    def _faults(self, now_ms: float) -> str | None:
        last_ms = self.last_fault_ms()
        if last_ms is None or now_ms - last_ms > self._settings.fault_shown_ms:
            return None
        found = [
            f"{faults.count} {'record' if faults.count == 1 else 'records'} {_WORDS[fault]}"
            f"{_numbers(faults)}"
            for fault, faults in self.ledger.faults.items()
            if faults.count
        ]
        return ", ".join(found)

    def _silence(self, now_ms: float) -> str | None:
        ledger = self.ledger
        since_ms = ledger.started_ms if ledger.last_arrival_ms is None else ledger.last_arrival_ms
        if now_ms - since_ms < self._settings.silent_ms:
            return None
        parts = [f"nothing has arrived for {(now_ms - since_ms) / 1000:.0f} s"]
        if ledger.under_way:
            records = "1 record is" if ledger.under_way == 1 else f"{ledger.under_way} records are"
            parts.append(f"{records} under way")
        if self.send_problem is not None:
            parts.append(f"sending to {self.topic} at {self.link.source}: {self.send_problem}")
        if self.read_problem is not None:
            parts.append(f"reading {self.copy}: {self.read_problem}")
        return ", ".join(parts)


def link_probes(
    settings: AggregatorSettings,
    *,
    run_id: str,
    now_ms: float,
    kept: Mapping[str, LinkProbe] = MappingProxyType({}),
) -> dict[str, LinkProbe]:
    """Return a probe for each probed link, by link name.

    Links that are as they were go on with their probe in `kept`. `run_id` is of the new probes.
    """
    found: dict[str, LinkProbe] = {}
    for link in settings.links:
        if link.probe:
            probe = kept.get(link.name)
            if probe is None or probe.link != link:
                probe = LinkProbe(link, settings.probe, run_id=run_id, now_ms=now_ms)
            found[link.name] = probe
    return found


def take_in(
    probes: Iterable[LinkProbe],
    offset: int,
    now_ms: float,
    *,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes]],
    create_time_ms: int | None,
) -> Mapping[str, float]:
    """Record that a record was read from a copy that these links share.

    Returns new latencies in milliseconds by link name. A record that cannot be decoded belongs to
    the link that its key names, else to all of them.
    """
    by_link = {probe.link.name: probe for probe in probes}
    record, is_intact = decode_probe_record(key, value, headers, create_time_ms)
    if record is not None and record.link in by_link:
        probe = by_link[record.link]
        latency_ms = probe.arrived(record, offset, now_ms, is_intact=is_intact)
        return {} if latency_ms is None else {record.link: latency_ms}
    if not is_intact:
        named = by_link.get((key or b"").decode(errors="replace"))
        for probe in [named] if named is not None else by_link.values():
            probe.ledger.altered(offset, now_ms)
    return {}


def _numbers(faults: Faults) -> str:
    told = list(faults.sequences)[-SEQUENCES_TOLD_MAX:]
    if not told:
        return ""
    among = "among them " if faults.count > len(told) else ""
    return f" ({among}sequence number {', '.join(map(str, told))})"
