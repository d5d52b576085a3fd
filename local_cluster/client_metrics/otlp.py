"""A pushed payload as samples: decompressed, decoded, with names that Prometheus takes. Pure.

The payload is a MetricsData message of OpenTelemetry. Gauges and sums become samples; histograms
and summaries, which no known client sends, are counted as dropped, and so is what is not a finite
number. Names and labels come from clients and are not trusted: characters are replaced, lengths and
counts are limited, and only Kafka's own names (`org.apache.kafka.`) go without a prefix.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from local_cluster.client_metrics.series import LABEL_CHARS_MAX
from local_cluster.prometheus_text import Kind, labels_text
from local_cluster.records.compress import DECOMPRESSED_BYTES_MAX, CompressionError, decompress

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, NumberDataPoint

SAMPLES_PER_PUSH_MAX: Final = 2_000
LABELS_PER_SAMPLE_MAX: Final = 16
NAME_CHARS_MAX: Final = 200
KAFKA_PREFIX: Final = "org_apache_kafka_"
OTHER_PREFIX: Final = "heliograph_client_"
NO_RECORDED_VALUE: Final = 1
"""Bit of a data point's flags: it has no value."""
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_]")


class TooLarge(ValueError):
    """The payload decompresses to more than the limit."""


class BrokenPayload(ValueError):
    """The payload cannot be decompressed or decoded."""


class ClientSample(NamedTuple):
    """One value of one metric of one client."""

    name: str
    kind: Kind
    labels: str
    """As they stand behind the name."""
    value: float
    is_delta: bool
    """The value adds to the one before."""


class Pushed(NamedTuple):
    """What a payload holds."""

    samples: tuple[ClientSample, ...]
    dropped: int
    """Data points beyond a limit, or of a kind that is not shown."""


def read_payload(codec: int, payload: bytes, bytes_max: int, who: Mapping[str, str]) -> Pushed:
    """Return the samples of a payload, each with the labels `who`.

    Raises TooLarge and BrokenPayload.
    """
    message = MetricsData()
    try:
        message.ParseFromString(_decompressed(codec, payload, bytes_max))
    except ValueError as error:
        if isinstance(error, TooLarge):
            raise
        raise BrokenPayload(str(error)) from error
    except Exception as error:  # protobuf's DecodeError, whose module depends on its build
        raise BrokenPayload(str(error)) from error
    samples: list[ClientSample] = []
    dropped = 0
    for sample in _samples(message, who):
        if sample is None or len(samples) >= SAMPLES_PER_PUSH_MAX:
            dropped += 1
        else:
            samples.append(sample)
    return Pushed(tuple(samples), dropped)


def _decompressed(codec: int, payload: bytes, bytes_max: int) -> bytes:
    try:
        return decompress(codec, payload, bytes_max)
    except CompressionError:
        # Some codecs do not tell "too large" from "broken". A client stops pushing after the
        # latter, so it is worth to look.
        decompress(codec, payload, DECOMPRESSED_BYTES_MAX)
        raise TooLarge(f"decompresses to more than {bytes_max} bytes") from None


def _samples(message: MetricsData, who: Mapping[str, str]) -> Iterator[ClientSample | None]:
    for resource in message.resource_metrics:
        shared = dict(_labels(resource.resource.attributes))
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                yield from _of_metric(metric, shared, who)


def _of_metric(
    metric: Metric, shared: Mapping[str, str], who: Mapping[str, str]
) -> Iterator[ClientSample | None]:
    name = _metric_name(metric.name)
    which = metric.WhichOneof("data")
    kind: Kind = "gauge"
    is_delta = False
    points: Iterable[NumberDataPoint]
    if which == "gauge":
        points = metric.gauge.data_points
    elif which == "sum":
        points = metric.sum.data_points
        is_delta = (
            metric.sum.aggregation_temporality
            == AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
        )
        if metric.sum.is_monotonic:
            kind = "counter"
            name = name if name.endswith("_total") else f"{name}_total"
    else:
        yield None
        return
    for point in points:
        value = _value(point)
        labels = {**shared, **dict(_labels(point.attributes)), **who}
        if value is None or len(labels) > LABELS_PER_SAMPLE_MAX:
            yield None
        else:
            yield ClientSample(name, kind, labels_text(labels), value, is_delta)


def _value(point: NumberDataPoint) -> float | None:
    which = point.WhichOneof("value")
    if which is None or point.flags & NO_RECORDED_VALUE:
        return None
    value: float = point.as_int if which == "as_int" else point.as_double
    return value if math.isfinite(value) else None


def _metric_name(name: str) -> str:
    clean = _NOT_IN_NAMES.sub("_", name[:NAME_CHARS_MAX])
    return clean if clean.startswith(KAFKA_PREFIX) else OTHER_PREFIX + clean


def _labels(attributes: Iterable[KeyValue]) -> Iterator[tuple[str, str]]:
    for each in attributes:
        name = _NOT_IN_NAMES.sub("_", each.key[:LABEL_CHARS_MAX])
        if not name or name[0].isdigit() or name.startswith("__"):
            name = f"label_{name}"
        which = each.value.WhichOneof("value")
        if which in ("string_value", "int_value", "double_value", "bool_value"):
            yield name, str(getattr(each.value, which))[:LABEL_CHARS_MAX]
