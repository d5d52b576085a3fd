"""Medians, ratios and verdicts of the benches, and what the Java tools print, read."""

from __future__ import annotations

import json

import pytest

from tests.bench import java_tools
from tests.bench.model import (
    CPU_FETCH,
    CPU_PER_GB,
    CPU_PRODUCE,
    KAFKA,
    KAFKA_FSYNC,
    MB_PER_SECOND,
    OURS,
    OURS_FSYNC,
    OURS_PLAIN,
    READY_SECONDS,
    Row,
    Sample,
    Side,
    Wanted,
)
from tests.bench.report import Report
from tests.bench.table import lines_of, markdown_curve, markdown_table


def samples(figure: str, **of_sides: list[float]) -> list[Sample]:
    sides: dict[str, Side] = {
        "kafka": KAFKA,
        "kafka_fsync": KAFKA_FSYNC,
        "ours": OURS,
        "fsync": OURS_FSYNC,
        "plain": OURS_PLAIN,
    }
    return [
        Sample("row", sides[name], {figure: value})
        for name, values in of_sides.items()
        for value in values
    ]


def verdicts(wanted: Wanted, figure: str, taken: list[Sample]) -> list[str]:
    row = Row(name="row", title="Row", wanted={figure: [wanted]})
    (line,) = lines_of([row], taken)
    return list(line.verdicts)


def test_the_median_of_the_repeats_is_what_counts() -> None:
    taken = samples(CPU_PER_GB, kafka=[4.0, 1.0, 4.2], ours=[2.0, 9.0, 2.1], fsync=[3.0])
    (line,) = lines_of([Row(name="row", title="Row")], taken)
    assert line.values == {KAFKA: 4.0, OURS: 2.1, OURS_FSYNC: 3.0}
    assert line.ratio == 2.1 / 4.0
    assert not line.verdicts


@pytest.mark.parametrize(
    ("figure", "kafka", "ours", "verdict"),
    [
        (CPU_PER_GB, [10.0, 10.0], [6.0, 6.0], "yes"),
        (CPU_PER_GB, [10.0, 10.0], [6.1, 6.1], "no"),
        (CPU_PER_GB, [10.0, 10.4], [6.15, 6.3], "even"),
        (MB_PER_SECOND, [100.0, 100.0], [60.0, 60.0], "yes"),
        (MB_PER_SECOND, [100.0, 100.0], [59.0, 59.0], "no"),
        (MB_PER_SECOND, [100.0, 96.0], [58.0, 57.0], "even"),
    ],
)
def test_less_cpu_is_better_and_more_throughput(
    figure: str, kafka: list[float], ours: list[float], verdict: str
) -> None:
    assert verdicts(Wanted(0.6), figure, samples(figure, kafka=kafka, ours=ours)) == [verdict]


def test_bounds_on_ours_alone_and_on_the_share_of_page_cache() -> None:
    taken = samples(READY_SECONDS, kafka=[0.1], ours=[1.6])
    assert verdicts(Wanted(1.5, "absolute"), READY_SECONDS, taken) == ["no"]
    taken = samples(MB_PER_SECOND, kafka=[1.0], ours=[100.0], fsync=[81.0])
    assert verdicts(Wanted(0.8, "share"), MB_PER_SECOND, taken) == ["yes"]
    assert verdicts(Wanted(0.8, "share"), MB_PER_SECOND, taken[:2]) == ["not measured"]


def test_the_same_promise_of_both_sides_is_compared() -> None:
    taken = samples(CPU_PER_GB, kafka=[1.0], kafka_fsync=[10.0], ours=[1.0], fsync=[4.0])
    assert verdicts(Wanted(0.4, "fsync"), CPU_PER_GB, taken) == ["yes"]
    assert verdicts(Wanted(0.3, "fsync"), CPU_PER_GB, taken) == ["no"]
    assert verdicts(Wanted(0.4, "fsync"), CPU_PER_GB, taken[2:]) == ["not measured"]


def test_the_table_is_markdown_and_says_what_is_missed() -> None:
    row = Row(name="row", title="Row", wanted={CPU_PER_GB: [Wanted(0.6)]})
    taken = [
        Sample("row", KAFKA, {CPU_PER_GB: 4.0, MB_PER_SECOND: 1000.0}),
        Sample("row", OURS, {CPU_PER_GB: 3.0, MB_PER_SECOND: 2000.0}),
    ]
    assert markdown_table(lines_of([row, Row(name="absent", title="Absent")], taken)) == (
        "| work | figure | Kafka | ours | ours : Kafka | wanted | reached | Kafka, fsync "
        "| ours, fsync |\n"
        "|---|---|---:|---:|---:|---|---|---:|---:|\n"
        "| Row | broker CPU-s/GB | 4.00 | 3.00 | 0.75 | <= 0.6 | **no** |  |  |\n"
        "|  | MB/s | 1,000 | 2,000 | 2.00 |  |  |  |  |"
    )


def test_a_curve_tells_whether_it_is_flat() -> None:
    rows = [Row(name=f"p{n}", title="", curve="partitions", point=n) for n in (10, 2_000)]
    taken = [
        Sample("p10", KAFKA, {CPU_PRODUCE: 30.0, CPU_FETCH: 20.0}),
        Sample("p10", OURS, {CPU_PRODUCE: 12.0, CPU_FETCH: 20.0}),
        Sample("p2000", KAFKA, {CPU_PRODUCE: 33.0, CPU_FETCH: 20.0}),
        Sample("p2000", OURS, {CPU_PRODUCE: 14.0, CPU_FETCH: 40.0}),
    ]
    shown = markdown_curve("partitions", rows, taken).splitlines()
    assert "| 2,000 | produce | 33.0 | 14.0 | 0.42 | " in shown[3]
    assert (
        "produce, cost at 2,000 partitions through cost at 10: kafka 1.10, ours 1.17" in shown[-2]
    )
    assert shown[-2].endswith(": yes")
    assert "ours 2.00" in shown[-1] and shown[-1].endswith("**no**")
    assert markdown_curve("connections", rows, taken) == ""


def test_a_report_says_everything_twice() -> None:
    rows = [Row(name="row", title="Row"), Row(name="p1", title="", curve="partitions", point=1)]
    taken = [*samples(CPU_PER_GB, kafka=[4.0], ours=[2.0]), Sample("p1", OURS, {CPU_FETCH: 7.0})]
    report = Report("Bench", ["command"], {"cores": "2"}, {"both": "acks=all"}, rows, taken)
    told = report.markdown()
    for part in ("`command`", "- cores: 2", "- both: acks=all", "| Row |", "| 1 | fetch |"):
        assert part in told
    saved = json.loads(json.dumps(report.json()))
    assert saved["samples"][0] == {"row": "row", "side": "kafka", "figures": {CPU_PER_GB: 4.0}}
    assert saved["lines"][0]["ratio"] == 0.5


def test_what_the_java_tools_print_is_read() -> None:
    produced = java_tools.read_produced(
        "1 records sent, 0.2 records/sec (0.00 MB/sec), 300.0 ms avg latency, 400.0 ms max "
        "latency.\n600000 records sent, 264550.264550 records/sec (252.29 MB/sec), 93.37 ms avg "
        "latency, 311.00 ms max latency, 90 ms 50th, 170 ms 95th, 230 ms 99th, 300 ms 99.9th.\n"
    )
    assert produced == java_tools.Produced(264550.26455, 93.37, 90, 230, 300, 311.0)
    consumed = java_tools.read_consumed(
        "2026-11-21 08:00:00:000, 2026-11-21 08:00:02:000, 953.6743, 476.8, 1000000, 500000.0, "
        "100, 1900, 1000.0, 526315.8\n\n"
    )
    assert consumed == pytest.approx(1048.576)
    latencies = java_tools.read_latencies(
        "0\t32.1\nAvg latency: 0.4321 ms\nPercentiles: 50th = 0, 99th = 1, 99.9th = 12\n"
    )
    assert latencies == java_tools.Latencies(0.4321, 0, 1, 12)


@pytest.mark.parametrize(
    "read", [java_tools.read_produced, java_tools.read_consumed, java_tools.read_latencies]
)
def test_a_tool_that_printed_no_summary_is_an_error(read: object) -> None:
    assert callable(read)
    with pytest.raises(ValueError, match="printed no summary: it went wrong"):
        read("it went wrong")


def test_plain_python_has_a_column_only_if_it_was_measured() -> None:
    row = Row(name="row", title="Row")
    measured = {"kafka": [1.0], "ours": [0.5]}
    without = markdown_table(lines_of([row], samples(CPU_PER_GB, **measured)))
    with_plain = markdown_table(lines_of([row], samples(CPU_PER_GB, **measured, plain=[0.75])))
    assert "plain Python" not in without
    assert "ours, plain Python" in with_plain.splitlines()[0]
    assert with_plain.splitlines()[2].endswith("| 0.75 |")
