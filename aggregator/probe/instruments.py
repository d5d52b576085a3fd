"""The probes as OpenTelemetry instruments; `aggregator/metrics.py` lists the names.

An unknown value has no sample, such as the age of the last arrival before the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from aggregator.probe.latencies import BOUNDS_MS
from aggregator.probe.ledger import Fault
from aggregator.probe.link_probe import LinkProbe, ProbeState

ValueOf = Callable[[LinkProbe], float | None]


class ProbeInstruments:
    """The instruments of all probes."""

    def __init__(
        self,
        meter: Meter,
        probes: Callable[[], Mapping[str, LinkProbe]],
        monotonic_ms: Callable[[], float],
    ) -> None:
        """`probes` returns those of the moment, by link."""
        self._probes = probes
        self._monotonic_ms = monotonic_ms
        self._latency = meter.create_histogram(
            "heliograph_probe_latency",
            unit="s",
            description="Time of a probe record from sending to arrival",
            explicit_bucket_boundaries_advisory=[bound / 1000 for bound in BOUNDS_MS],
        )
        counted: list[tuple[str, ValueOf, str]] = [
            ("sent", lambda probe: probe.ledger.sent, "Probe records on the source"),
            ("received", lambda probe: probe.ledger.received, "Probe records that arrived"),
            *(
                (fault.value, _count_of(fault), f"Probe records {fault.value.replace('_', ' ')}")
                for fault in Fault
                if fault is not Fault.LOST
            ),
        ]
        for name, value_of, description in counted:
            meter.create_observable_counter(
                f"heliograph_probe_{name}_records",
                callbacks=[self._per_link(value_of)],
                description=description,
            )
        # A lost record that arrives later is no longer lost, so this value can decrease.
        meter.create_observable_gauge(
            "heliograph_probe_lost_records",
            callbacks=[self._per_link(_count_of(Fault.LOST))],
            description="Probe records that are lost",
        )
        meter.create_observable_gauge(
            "heliograph_probe_degraded",
            callbacks=[self._per_link(self._is_degraded)],
            description="Whether the probe reports a fault of the link",
        )
        meter.create_observable_gauge(
            "heliograph_probe_last_arrival_age",
            callbacks=[self._per_link(self._age_seconds)],
            unit="s",
            description="Time since the last arrival of a probe record",
        )

    def record_latency(self, link: str, latency_ms: float) -> None:
        """Record the latency of a record that has arrived."""
        self._latency.record(latency_ms / 1000, self._labels(link))

    def _labels(self, link: str) -> dict[str, str]:
        return {"link": link, "datacenter": self._probes()[link].link.datacenter}

    def _per_link(self, value_of: ValueOf) -> Callable[[CallbackOptions], list[Observation]]:
        def observe(_: CallbackOptions) -> list[Observation]:
            return [
                Observation(value, self._labels(link))
                for link, probe in self._probes().items()
                if (value := value_of(probe)) is not None
            ]

        return observe

    def _is_degraded(self, probe: LinkProbe) -> float:
        return int(probe.verdict(self._monotonic_ms()).state is ProbeState.DEGRADED)

    def _age_seconds(self, probe: LinkProbe) -> float | None:
        last_ms = probe.ledger.last_arrival_ms
        return None if last_ms is None else (self._monotonic_ms() - last_ms) / 1000


def _count_of(fault: Fault) -> ValueOf:
    return lambda probe: probe.ledger.faults[fault].count
