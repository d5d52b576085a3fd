"""The whole demo with few flights: its results for a correct and for a falsified log."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pyarrow.parquet as pq
import pytest

from tests.support.quiet_ports import quiet_ports
from topology.demo.flights import AIRPORTS, flights_of, read_flights
from topology.demo.run import EXIT_BAD, EXIT_GOOD, EXIT_USAGE
from topology.file.load import shipped_topology

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]
SCRIPT = Path(__file__).with_name("tampered_demo.py")
FLIGHTS_MAX = 400
PRODUCED = FLIGHTS_MAX * len(AIRPORTS)
RUN_SECONDS_MAX = 600.0


@dataclass(frozen=True)
class Run:
    """One run of the demo as a process."""

    code: int
    document: dict[str, Any]
    said: str
    directory: Path
    pages: list[dict[str, Any]]
    """The data of the dashboard, once a second."""


def run_demo_process(mode: str, directory: Path) -> Run:
    """Run it on the quickstart, or on the secure topology, with other ports."""
    name = "secure" if mode == "secure" else "quickstart"
    text = shipped_topology(name).read_text()
    known = sorted(set(re.findall(r"\b19[02]\d\d\b", text)))
    for port, free in zip(known, quiet_ports(len(known)), strict=True):
        text = re.sub(rf"\b{port}\b", str(free), text)
    topology = directory / f"{name}.yaml"
    topology.write_text(text)
    said, stdout = directory / "said", directory / "stdout"
    with said.open("wb") as errors, stdout.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), mode, str(topology), str(directory)],
            stdout=output,
            stderr=errors,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            cwd=directory,
        )
        pages = watch_page(process, said)
    assert stdout.stat().st_size, said.read_text()[-4000:]
    document = json.loads(stdout.read_text())
    assert process.returncode is not None
    return Run(process.returncode, document, said.read_text(), directory, pages)


def watch_page(process: subprocess.Popen[bytes], said: Path) -> list[dict[str, Any]]:
    """Return what the dashboard's data was, once a second, until the process ends."""
    deadline = time.monotonic() + RUN_SECONDS_MAX
    pages: list[dict[str, Any]] = []
    while process.poll() is None:
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise TimeoutError(said.read_text()[-4000:])
        found = re.search(r"^dashboard: (\S+)", said.read_text(), re.MULTILINE)
        if found is not None:
            # The page ends before the process does.
            with contextlib.suppress(OSError), urlopen(f"{found[1]}data.json", timeout=5) as page:
                pages.append(json.load(page))
        time.sleep(1)
    return pages


def left_behind(directory: Path) -> list[str]:
    """Return processes whose working directory is still this one."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(directory) in line:
            found.append(line)
    return found


def test_all_is_well(tmp_path: Path) -> None:
    run = run_demo_process("clean", tmp_path)
    document = run.document
    assert run.code == EXIT_GOOD, run.said[-4000:]
    assert document["ok"] is True
    assert document["audit"]["line"] == (
        f"audit: {PRODUCED} produced, {PRODUCED} mirrored, 0 lost, 0 duplicated"
    )
    assert document["produced"] == dict.fromkeys(AIRPORTS, FLIGHTS_MAX)
    assert {board["is_exact"] for board in document["boards"]["partitions"]} == {True}
    assert any(board["next_here"] for board in document["boards"]["partitions"])
    assert document["carriers"] == expected_carriers()
    assert sum(day["departures"] for day in document["days"]) == PRODUCED
    tables = {Path(path).name: pq.read_table(path).num_rows for path in document["files"]}
    assert tables["carriers.parquet"] == len(document["carriers"])
    assert tables["days.parquet"] == len(document["days"])
    assert not (tmp_path / "state").exists()
    assert left_behind(tmp_path) == []
    check_stream_and_outage(run)


def check_stream_and_outage(run: Run) -> None:
    """Check the dashboard while the demo ran, its figures at the end, and the page."""
    produced = dict.fromkeys(AIRPORTS, FLIGHTS_MAX)
    assert run.document["stream"]["exact"] is True
    assert run.document["stream"]["rows"] == produced
    answers = {each["kind"]: each for each in run.document["outage"]["answers"]}
    assert answers["strict"]["says"] == "waits for lga"
    assert answers["fast"]["says"] == "continues without lga"
    assert answers["strict"]["complete_through_ms"] == answers["lga"]["complete_through_ms"]
    assert answers["fast"]["complete_through_ms"] == min(
        answers[name]["complete_through_ms"] for name in ("ewr", "jfk")
    )
    assert answers["fast"]["complete_through_ms"] > answers["strict"]["complete_through_ms"]

    samples = run.pages[-1]["samples"]
    newest = samples[-1]["datacenters"]
    assert {name: each["rows"] for name, each in newest.items()} == produced
    assert any(each["missing"] == ["lga"] for each in samples)
    for name in AIRPORTS:
        counts = [each["datacenters"][name]["rows"] for each in samples]
        assert counts == sorted(counts)
        assert len(set(counts)) > 2, "the stream counted more than once"
    page = Path(run.document["page"]).read_text()
    assert run.document["audit"]["line"] in page
    assert "continues without lga" in page
    assert not re.search(r"https?://|<script", page)
    assert [path.name for path in Path(run.document["page"]).parent.glob("*.partial")] == []


@pytest.mark.long
@pytest.mark.timeout(900)
def test_all_is_well_over_tls_with_acls(tmp_path: Path) -> None:
    run = run_demo_process("secure", tmp_path)
    assert run.code == EXIT_GOOD, run.said[-4000:]
    assert run.document["audit"]["line"] == (
        f"audit: {PRODUCED} produced, {PRODUCED} mirrored, 0 lost, 0 duplicated"
    )
    assert {board["is_exact"] for board in run.document["boards"]["partitions"]} == {True}
    assert run.document["carriers"] == expected_carriers()
    denied = re.search(r"^denied (.*)$", run.said, re.MULTILINE)
    assert denied is not None, run.said[-4000:]
    assert json.loads(denied[1]) == {"brokers": 6, "lines": []}
    check_stream_and_outage(run)
    assert not (tmp_path / "state").exists(), "the generated secrets are gone"
    assert left_behind(tmp_path) == []


def expected_carriers() -> list[dict[str, Any]]:
    """Return the same figures, counted from the file."""
    table = read_flights()
    delays: dict[tuple[str, str], list[float | None]] = {}
    for airport in AIRPORTS:
        for value in flights_of(table, airport).values[:FLIGHTS_MAX]:
            flight = json.loads(value)
            for datacenter in (airport, "all"):
                delays.setdefault((flight["carrier"], datacenter), []).append(flight["dep_delay"])
    rows = []
    for (carrier, datacenter), found in sorted(
        delays.items(), key=lambda item: (item[0][0], item[0][1] != "all", item[0][1])
    ):
        known = [delay for delay in found if delay is not None]
        mean = pytest.approx(sum(known) / len(known)) if known else None
        rows.append(
            {
                "carrier": carrier,
                "datacenter": datacenter,
                "flights": len(found),
                "mean_departure_delay": mean,
            }
        )
    return rows


@pytest.mark.long
def test_a_dropped_and_a_doubled_record_are_named(tmp_path: Path) -> None:
    run = run_demo_process("tamper", tmp_path)
    assert run.code == EXIT_BAD, run.said[-4000:]
    done = re.search(r"^tampered (.*)$", run.said, re.MULTILINE)
    assert done is not None, run.said[-4000:]
    did = json.loads(done[1])
    audit = run.document["audit"]
    assert audit["line"] == (
        f"audit: {PRODUCED} produced, {PRODUCED - 1} mirrored, 1 lost, 1 duplicated"
    )
    assert audit["findings"] == [
        {
            "problem": "duplicated",
            "datacenter": "ewr",
            "topic": "flights",
            "partition": 2,
            "offset": did["original"],
            "aggregate_offset": did["copy"],
        },
        {
            "problem": "lost",
            "datacenter": "jfk",
            "topic": "flights",
            "partition": 1,
            "offset": did["dropped"],
            "aggregate_offset": None,
        },
    ]
    # People read the same: datacenter, partition and offset.
    assert f"lost: jfk flights-1 offset {did['dropped']}" in run.said
    assert f"duplicated: ewr flights-2 offset {did['original']}" in run.said
    assert left_behind(tmp_path) == []


@pytest.mark.long
def test_a_failure_in_the_middle_stops_everything_and_is_told(tmp_path: Path) -> None:
    run = run_demo_process("fail", tmp_path)
    assert run.code == EXIT_BAD
    assert "a failure made by a test" in run.document["failure"]
    assert run.document["ok"] is False
    assert "a failure made by a test" in run.said
    assert (tmp_path / "state" / "logs").is_dir()
    assert left_behind(tmp_path) == []


def test_data_of_others_is_left_alone(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "deployment.json").write_text("{}")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "clean", str(shipped_topology("quickstart")), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == EXIT_USAGE
    assert "data that the demo did not make" in done.stderr
    assert (state / "deployment.json").read_text() == "{}"
