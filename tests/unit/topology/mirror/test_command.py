"""`heliograph mirror pause|resume|throttle|retry`: requests to the worker, and the output."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.quiet_ports import quiet_ports
from topology.deployment.deployment import (
    Daemon,
    Deployment,
    LinkView,
    encode_deployment,
    read_deployment,
)
from topology.deployment.state_dir import StateDir
from topology.main import app
from topology.mirror import config_sync

CONTROLS = {
    "paused": [{"topic": "t", "partition": 1}, {"topic": None, "partition": None}],
    "source_bytes_per_second": 5,
    "target_bytes_per_second": None,
}


RETRIED = {"retried": [{"topic": "t", "partition": 1}, {"topic": "t", "partition": 3}]}


REPAIR = {
    "link": "a-b",
    "topic": "t",
    "partition": 1,
    "copy": "a.t",
    "is_well": False,
    "stop": None,
    "faults": [
        {"kind": "FOREIGN", "target_from": 7, "target_to": 9, "source_from": None,
         "source_to": None, "records_count": None, "detail": "others"},
        {"kind": "LOST", "target_from": 3, "target_to": 4, "source_from": 5, "source_to": 6,
         "records_count": 1, "detail": "nothing there"},
    ],
    "ways": [
        {"how": "recopy", "is_possible": True, "refusal": None, "given_up": [],
         "effects": ["read again"],
         "copied_again": {"source_from": 5, "source_to": 9, "records": 4, "bytes": 300,
                          "is_estimate": True}},
        {"how": "fresh", "is_possible": False, "refusal": "others write into it", "given_up": [],
         "effects": [],
         "copied_again": {"source_from": 0, "source_to": 9, "records": None, "bytes": None,
                          "is_estimate": False}},
        {"how": "skip", "is_possible": True, "refusal": None,
         "given_up": [{"source_from": 5, "source_to": 6}], "effects": ["nobody notices"],
         "copied_again": {"source_from": 9, "source_to": 9, "records": 0, "bytes": 0,
                          "is_estimate": False}},
    ],
    "groups": [{"group": "g", "target_offset": 4, "source_offset": 6}],
    "ordered": None,
    "entries": [],
}  # fmt: skip


ENTRIES = [{"detail": "left as it is"}]


class Worker(http.server.BaseHTTPRequestHandler):
    """Records its requests, and refuses a topic `refused`."""

    told: list[str]

    def do_POST(self) -> None:
        self.told.append(self.path)
        is_refused = "refused" in self.path
        self.send_response(409 if is_refused else 200)
        self.end_headers()
        given: object = RETRIED if self.path.startswith("/retry") else CONTROLS
        if "well" in self.path:
            given = {"retried": []}
        if self.path.startswith("/repair"):
            given = REPAIR | {"ordered": "skip", "entries": ENTRIES}
        answer = "t is paused as a whole" if is_refused else json.dumps(given)
        self.wfile.write(answer.encode())

    def do_GET(self) -> None:
        self.told.append(f"GET {self.path}")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(REPAIR | {"is_well": "well" in self.path}).encode())

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[list[str]]:
    """A fake worker, whose deployment is in `tmp_path`."""
    told: list[str] = []
    handler = type("NotingWorker", (Worker,), {"told": told})
    server = http.server.HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    ready = tmp_path / "ready.json"
    ready.write_text(json.dumps({"http_host": "127.0.0.1", "http_port": server.server_port}))
    daemon = Daemon(key="m", role="mirror", label="", argv=(), ready_file=str(ready))
    view = LinkView(name="a-b", source="a", target="b", daemon="m")
    deployment = Deployment(name="d", topology_file="-", daemons=(daemon,), links=(view,))
    state = StateDir(tmp_path)
    state.deployment_file.parent.mkdir(parents=True, exist_ok=True)
    state.deployment_file.write_text(encode_deployment(deployment))
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run(tmp_path: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["mirror", *arguments, "--state-dir", str(tmp_path)])
    return result.exit_code, result.output


def test_a_partition_is_paused_and_what_holds_is_shown(worker: list[str], tmp_path: Path) -> None:
    arguments = ("pause", "--link", "a-b", "--topic", "t", "--partition", "1")
    code, output = run(tmp_path, *arguments)
    assert (code, worker) == (0, ["/pause?link=a-b&topic=t&partition=1"])
    assert output.splitlines() == [
        "a-b: paused: t-1",
        "a-b: paused: everything",
        "a-b: source: 5 bytes per second",
    ]


@pytest.mark.parametrize("order", ["pause", "resume"])
def test_what_holds_after_an_order_is_shown(worker: list[str], tmp_path: Path, order: str) -> None:
    code, output = run(tmp_path, order, "--link", "a-b")
    assert (code, worker.pop()) == (0, f"/{order}?link=a-b")
    assert "a-b: paused: t-1" in output.splitlines()
    code, output = run(tmp_path, order, "--link", "a-b", "-o", "json")
    assert (code, json.loads(output)) == (0, CONTROLS)


def test_rates_are_set(worker: list[str], tmp_path: Path) -> None:
    code, output = run(tmp_path, "throttle", "--link", "a-b", "--source", "5")
    assert (code, worker.pop()) == (0, "/throttle?link=a-b&source_bytes_per_second=5")
    assert "a-b: source: 5 bytes per second" in output.splitlines()
    code, output = run(tmp_path, "throttle", "--link", "a-b", "--target", "0", "-o", "json")
    assert (code, json.loads(output)) == (0, CONTROLS)
    assert worker == ["/throttle?link=a-b&target_bytes_per_second=0"]


def test_what_stands_still_is_tried_again(worker: list[str], tmp_path: Path) -> None:
    code, output = run(tmp_path, "retry", "--link", "a-b")
    assert (code, worker.pop()) == (0, "/retry?link=a-b")
    assert output.splitlines() == ["a-b: retried: t-1", "a-b: retried: t-3"]
    arguments = ("retry", "--link", "a-b", "--topic", "t", "--partition", "1", "-o", "json")
    code, output = run(tmp_path, *arguments)
    assert (code, worker.pop()) == (0, "/retry?link=a-b&topic=t&partition=1")
    assert json.loads(output) == RETRIED
    code, output = run(tmp_path, "retry", "--link", "a-b", "--topic", "well")
    assert (code, output) == (0, "a-b: no partition of it is stopped\n")
    assert "Retry stopped partitions now" in run(tmp_path, "retry", "--help")[1]


def test_the_ways_to_repair_are_shown_and_none_is_chosen(worker: list[str], tmp_path: Path) -> None:
    code, output = run(tmp_path, "repair", "a-b", "t", "1")
    assert (code, worker.pop()) == (3, "GET /repair?link=a-b&topic=t&partition=1")
    assert output.splitlines() == [
        "a-b: t-1: wrong in a.t-1:",
        "  FOREIGN at target offsets 7..8: others",
        "  LOST at target offsets 3, source offsets 5: nothing there",
        "--how recopy:",
        "  copies again: 4 records, about 300 bytes",
        "  read again",
        "--how fresh: not possible: others write into it",
        "--how skip:",
        "  the copy will lack source offsets 5",
        "  nobody notices",
        "group g: at target offset 4, source offset 6",
        "nothing was changed: choose a way with --how",
    ]
    code, output = run(tmp_path, "repair", "a-b", "t", "1", "--dry-run", "--how", "skip")
    assert (code, worker.pop()) == (0, "GET /repair?link=a-b&topic=t&partition=1")
    assert "recopy" not in output
    code, output = run(tmp_path, "repair", "a-b", "well", "1")
    assert (code, output) == (0, "a-b: t-1: nothing is wrong in a.t-1\n")


def test_a_repair_is_ordered(worker: list[str], tmp_path: Path) -> None:
    code, output = run(tmp_path, "repair", "a-b", "t", "1", "--how", "skip")
    assert (code, worker.pop()) == (0, "/repair?link=a-b&topic=t&partition=1&how=skip")
    assert output.splitlines()[3:] == [
        "ordered: skip; the worker that copies it carries it out",
        "  nobody notices",
        "  journal: left as it is",
    ]
    code, output = run(tmp_path, "repair", "a-b", "t", "1", "--how", "skip", "-o", "json")
    assert (code, worker.pop()) == (0, "/repair?link=a-b&topic=t&partition=1&how=skip")
    assert json.loads(output) == REPAIR | {"ordered": "skip", "entries": ENTRIES}
    code, output = run(tmp_path, "repair", "a-b", "refused", "1", "--how", "skip")
    assert code == 1
    assert "t is paused as a whole" in output


def test_what_cannot_be_done_is_said(worker: list[str], tmp_path: Path) -> None:
    for arguments, code, message in (
        (("resume", "--link", "a-b", "--topic", "refused"), 1, "t is paused as a whole"),
        (("resume", "--link", "a-c"), 1, "no link 'a-c'; did you mean 'a-b'? there are: a-b"),
        (("sync", "--link", "a-c", "--dry-run"), 1, "no link 'a-c'; did you mean 'a-b'?"),
        (("pause", "--link", "a-b", "--partition", "1"), 2, "needs its --topic"),
        (("throttle", "--link", "a-b"), 2, "--source, --target or both"),
        (("retry", "--link", "nothing"), 1, "there are: a-b"),
        (("retry", "--link", "a-b", "--topic", "refused"), 1, "t is paused as a whole"),
        (("retry", "--link", "a-b", "--partition", "1"), 2, "needs its --topic"),
    ):
        found, output = run(tmp_path, *arguments)
        assert found == code
        assert message in output
    (tmp_path / "ready.json").unlink()
    assert "does not run" in run(tmp_path, "pause", "--link", "a-b")[1]


@pytest.mark.parametrize(("state", "code"), [("refused", 1), ("done", 0), ("planned", 0)])
def test_a_change_that_a_target_refuses_is_no_success(
    worker: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, code: int
) -> None:
    change = {
        "link": "a-b",
        "kind": "set_config",
        "resource": "a.t",
        "name": "retention.ms",
        "before": "1",
        "after": "2",
        "withheld": False,
        "state": state,
        "reason": "POLICY_VIOLATION" if state == "refused" else None,
    }
    monkeypatch.setattr(config_sync, "sync_links", lambda *_, **__: [change])
    found, output = run(tmp_path, "sync")
    assert found == code
    assert output.startswith(f"a-b: {state}: set config a.t retention.ms: 1 -> 2")
    found, output = run(tmp_path, "sync", "-o", "json")
    assert (found, [each["state"] for each in json.loads(output)["changes"]]) == (code, [state])


def elsewhere(tmp_path: Path, *addresses: tuple[str, int] | None) -> None:
    """Move the link's worker to other hosts, one worker for each address."""
    state = StateDir(tmp_path)
    found = read_deployment(state)
    workers = tuple(
        replace(found.daemons[0], key=f"m{number}", host=f"host-{number}", address=address)
        for number, address in enumerate(addresses, 1)
    )
    keys = tuple(each.key for each in workers)
    view = replace(found.links[0], daemon=keys[0], workers=keys)
    moved = replace(found, daemons=(), elsewhere=workers, links=(view,))
    state.deployment_file.write_text(encode_deployment(moved))


def address_of(tmp_path: Path) -> tuple[str, int]:
    ready = json.loads((tmp_path / "ready.json").read_text())
    return ready["http_host"], ready["http_port"]


def test_a_worker_of_another_host_is_asked_at_its_address(
    worker: list[str], tmp_path: Path
) -> None:
    elsewhere(tmp_path, address_of(tmp_path))
    code, _ = run(tmp_path, "resume", "--link", "a-b")
    assert (code, worker) == (0, ["/resume?link=a-b"])


def test_the_next_worker_is_asked_if_one_does_not_run_or_cannot_be_reached(
    worker: list[str], tmp_path: Path
) -> None:
    elsewhere(tmp_path, None, ("127.0.0.1", quiet_ports(1)[0]), address_of(tmp_path))
    code, _ = run(tmp_path, "pause", "--link", "a-b")
    assert (code, worker) == (0, ["/pause?link=a-b"])


def test_a_worker_that_refuses_is_the_last_one_that_is_asked(
    worker: list[str], tmp_path: Path
) -> None:
    elsewhere(tmp_path, address_of(tmp_path), address_of(tmp_path))
    code, output = run(tmp_path, "pause", "--link", "a-b", "--topic", "refused")
    assert (code, len(worker)) == (1, 1)
    assert "the worker of link a-b on host-1: t is paused as a whole" in output


def test_workers_whose_http_other_hosts_cannot_reach_are_named(
    worker: list[str], tmp_path: Path
) -> None:
    elsewhere(tmp_path, None, ("127.0.0.1", quiet_ports(1)[0]))
    code, output = run(tmp_path, "pause", "--link", "a-b")
    assert (code, worker) == (1, [])
    assert (
        "the worker of link a-b runs on host-1, and other hosts cannot reach its HTTP; ask there"
        in output
    )


def test_every_worker_retries(worker: list[str], tmp_path: Path) -> None:
    elsewhere(tmp_path, address_of(tmp_path), address_of(tmp_path))
    code, output = run(tmp_path, "retry", "--link", "a-b", "-o", "json")
    assert (code, worker) == (0, ["/retry?link=a-b"] * 2)
    assert json.loads(output) == {"retried": RETRIED["retried"] * 2}


def test_a_worker_that_does_not_retry_is_named(worker: list[str], tmp_path: Path) -> None:
    elsewhere(tmp_path, None, address_of(tmp_path))
    code, output = run(tmp_path, "retry", "--link", "a-b")
    assert (code, len(worker)) == (1, 1)
    assert output.splitlines() == [
        "a-b: retried: t-1",
        "a-b: retried: t-3",
        "heliograph: not every worker responded",
        "  worker m1 of link a-b runs on host-1, and other hosts cannot reach its HTTP; ask there",
    ]
