"""`heliograph log-level`: which processes it asks, its output, its JSON and its refusals."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from topology.deployment.deployment import (
    BrokerView,
    ClusterView,
    Daemon,
    Deployment,
    LinkView,
    encode_deployment,
)
from topology.deployment.state_dir import StateDir
from topology.log_levels.chosen import chosen_processes, wanted_levels
from topology.main import app

ROOT = {"logger": "root", "level": "INFO", "is_set": True}
CLIENT = {"logger": "local_cluster.client", "level": "INFO", "is_set": False}
FLOW = {"logger": "mirror_maker.flow", "level": "INFO", "is_set": False}


class Process(http.server.BaseHTTPRequestHandler):
    """Has the loggers of `levels`, and notes what it is told. A path `None` knows no loggers."""

    path_of_loggers: str | None
    levels: dict[str, dict[str, Any]]
    told: list[tuple[str, object]]

    def do_GET(self) -> None:
        if self.path != self.path_of_loggers:
            self._answer(404, b"404: Not Found")
        else:
            self._answer(200, json.dumps({"loggers": [*self.levels.values()]}).encode())

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = self.path.removeprefix(f"{self.path_of_loggers}/")
        self.told.append((name, body))
        if self.levels[name].get("refused"):
            self._answer(403, b"{}")
            return
        self.levels[name] = {"logger": name, "level": body["level"] or "INFO", "is_set": True}
        self._answer(200, json.dumps(self.levels[name]).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


class World(NamedTuple):
    """A deployment with a worker and an aggregator of nyc that run, and a worker elsewhere."""

    worker: type[Process]
    aggregator: type[Process]
    directory: Path

    def run(self, *arguments: str) -> tuple[int, str, str]:
        words = ["log-level", *arguments, "--state-dir", str(self.directory)]
        done = CliRunner().invoke(app, words)
        return done.exit_code, done.stdout, done.stderr


def daemon(key: str, role: Any, **values: Any) -> Daemon:
    return Daemon(key=key, role=role, label="", argv=(), **values)


def deployment(directory: Path) -> Deployment:
    return Deployment(
        name="d",
        topology_file="-",
        daemons=(
            daemon("broker-nyc-1", "broker"),
            daemon("mirror-nyc.h1", "mirror", ready_file=str(directory / "worker.json")),
            daemon("aggregator-nyc", "aggregator", ready_file=str(directory / "aggregator.json")),
        ),
        elsewhere=(
            daemon("mirror-nyc.h2", "mirror", ready_file="/there", host="h2"),
            daemon("mirror-lga", "mirror", ready_file="/there", host="h2"),
        ),
        clusters=(
            ClusterView(
                name="nyc",
                kind="aggregate",
                datacenter="nyc",
                bootstrap="h:1",
                aggregator="aggregator-nyc",
                brokers=(BrokerView(id=1, host="h", port=1, daemon="broker-nyc-1"),),
            ),
            ClusterView(name="jfk", kind="local", datacenter="jfk", bootstrap="h:2"),
        ),
        links=(
            LinkView(
                name="jfk-nyc",
                source="jfk",
                target="nyc",
                daemon="mirror-nyc.h1",
                workers=("mirror-nyc.h1", "mirror-nyc.h2"),
            ),
            LinkView(name="jfk-lga", source="jfk", target="lga", daemon="mirror-lga"),
        ),
    )


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    handlers: list[type[Process]] = []
    servers = []
    for name, path, own in (
        ("worker", "/loggers", FLOW),
        ("aggregator", "/api/v1/loggers", {**FLOW, "logger": "aggregator.maps"}),
    ):
        levels = {each["logger"]: each for each in (ROOT, CLIENT, own)}
        noted = {"path_of_loggers": path, "levels": levels, "told": []}
        handler = type(f"{name}Process", (Process,), noted)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        ready = {"http_host": "127.0.0.1", "http_port": server.server_port}
        (tmp_path / f"{name}.json").write_text(json.dumps(ready))
        handlers.append(handler)
        servers.append((server, thread))
    state = StateDir(tmp_path)
    state.deployment_file.write_text(encode_deployment(deployment(tmp_path)))
    try:
        yield World(handlers[0], handlers[1], tmp_path)
    finally:
        for server, thread in servers:
            server.shutdown()
            thread.join()
            server.server_close()


def test_a_name_means_processes() -> None:
    given = deployment(Path("/"))
    meant = {
        name: [each.key for each in chosen_processes(given, name)]
        for name in (None, "nyc", "jfk-nyc", "mirror-nyc.h1", "mirror-nyc.h2", "lga")
    }
    assert meant == {
        None: ["mirror-nyc.h1", "aggregator-nyc"],
        "nyc": ["mirror-nyc.h1", "aggregator-nyc", "mirror-nyc.h2"],
        "jfk-nyc": ["mirror-nyc.h1", "mirror-nyc.h2"],
        "mirror-nyc.h1": ["mirror-nyc.h1"],
        "mirror-nyc.h2": ["mirror-nyc.h2"],
        "lga": ["mirror-lga"],
    }
    with pytest.raises(ValueError, match="no process, link or cluster 'nyk'; did you mean 'nyc'"):
        chosen_processes(given, "nyk")
    with pytest.raises(ValueError, match="no process, link or cluster 'jfk'"):
        chosen_processes(given, "jfk")
    with pytest.raises(ValueError, match=r"`heliograph config set broker-logger 1 .* -c nyc`"):
        chosen_processes(given, "broker-nyc-1")


def test_wanted_levels() -> None:
    wanted = wanted_levels(["mirror_maker=debug", "root=WARN"], ["aggregator"])
    assert wanted == {"mirror_maker": "DEBUG", "root": "WARN", "aggregator": None}
    for assigned, reset, message in (
        (["root"], [], "'root' is not NAME=VALUE"),
        (["root=INFO", "root=DEBUG"], [], "names 'root' twice"),
        (["root=INFO"], ["root"], "'root' is changed in two ways"),
        (["root=WARNING"], [], "did you mean 'WARN'"),
    ):
        with pytest.raises(ValueError, match=message):
            wanted_levels(assigned, reset)


def test_own_levels_are_shown_and_all_of_them(world: World) -> None:
    code, shown, _ = world.run()
    assert code == 0
    assert [line.split() for line in shown.splitlines()] == [
        ["process", "logger", "level", "set", "here"],
        ["mirror-nyc.h1", "root", "INFO", "yes"],
        ["aggregator-nyc", "root", "INFO", "yes"],
    ]
    code, shown, _ = world.run("mirror-nyc.h1", "--all", "-o", "json")
    assert (code, json.loads(shown)) == (
        0,
        {
            "processes": [{"process": "mirror-nyc.h1", "loggers": [ROOT, CLIENT, FLOW]}],
            "failed": [],
        },
    )
    assert not world.worker.told


def test_a_level_changes_in_every_process(world: World) -> None:
    code, shown, _ = world.run("local_cluster.client=DEBUG", "-o", "json")
    changed = {**CLIENT, "level": "DEBUG", "is_set": True, "before": "INFO"}
    assert (code, json.loads(shown)) == (
        0,
        {
            "processes": [
                {"process": "mirror-nyc.h1", "loggers": [changed]},
                {"process": "aggregator-nyc", "loggers": [changed]},
            ],
            "failed": [],
        },
    )
    for process in (world.worker, world.aggregator):
        assert process.told == [("local_cluster.client", {"level": "DEBUG"})]


def test_levels_of_one_process_change_and_are_reset(world: World) -> None:
    code, shown, _ = world.run("mirror-nyc.h1", "root=WARN", "--reset", "mirror_maker.flow")
    assert code == 0
    assert [line.split() for line in shown.splitlines()] == [
        ["process", "logger", "before", "now"],
        ["mirror-nyc.h1", "root", "INFO", "WARN"],
        ["mirror-nyc.h1", "mirror_maker.flow", "INFO", "INFO"],
    ]
    assert world.worker.told == [
        ("root", {"level": "WARN"}),
        ("mirror_maker.flow", {"level": None}),
    ]
    assert not world.aggregator.told


def test_nothing_changes_unless_every_process_has_the_logger(world: World) -> None:
    code, shown, said = world.run("root=DEBUG", "mirror_maker.flwo=DEBUG")
    assert (code, shown) == (1, "")
    assert said.splitlines() == [
        "heliograph: nothing was changed:",
        "  mirror-nyc.h1 has no logger 'mirror_maker.flwo'; did you mean 'mirror_maker.flow'?",
        "  aggregator-nyc has no logger 'mirror_maker.flwo'",
    ]
    assert not world.worker.told and not world.aggregator.told


def test_nothing_changes_unless_every_process_responds(world: World) -> None:
    reason = "mirror-nyc.h2 runs on h2, and other hosts cannot reach its HTTP; ask there"
    code, shown, said = world.run("nyc", "root=DEBUG")
    assert (code, shown) == (1, "")
    assert said == f"heliograph: nothing was changed:\n  {reason}\n"
    (world.directory / "aggregator.json").unlink()
    code, _, said = world.run("root=DEBUG")
    assert code == 1 and "  aggregator-nyc does not run\n" in said
    assert not world.worker.told
    code, shown, said = world.run("nyc", "-o", "json")
    assert (code, json.loads(shown)) == (
        1,
        {
            "processes": [{"process": "mirror-nyc.h1", "loggers": [ROOT]}],
            "failed": [
                {"process": "aggregator-nyc", "reason": "aggregator-nyc does not run"},
                {"process": "mirror-nyc.h2", "reason": reason},
            ],
        },
    )
    assert f"heliograph: {reason}" in said


def test_a_worker_of_another_host_is_asked_at_its_address(world: World) -> None:
    ready = json.loads((world.directory / "worker.json").read_text())
    given = deployment(world.directory)
    there = daemon("mirror-nyc.h2", "mirror", host="h2", address=("127.0.0.1", ready["http_port"]))
    state = StateDir(world.directory)
    moved = encode_deployment(
        Deployment(name="d", topology_file="-", elsewhere=(there,), links=given.links[:1])
    )
    state.deployment_file.write_text(moved.replace("mirror-nyc.h1", "mirror-nyc.h2"))
    code, shown, _ = world.run("jfk-nyc", "root=ERROR", "-o", "json")
    assert code == 0
    (process,) = json.loads(shown)["processes"]
    assert (process["process"], process["loggers"][0]["level"]) == ("mirror-nyc.h2", "ERROR")


def test_an_older_process_and_a_refusal_are_named(world: World) -> None:
    world.worker.path_of_loggers = None
    code, _, said = world.run()
    assert code == 1
    assert "mirror-nyc.h1 runs an older version, which cannot change levels" in said
    world.worker.path_of_loggers = "/loggers"
    world.worker.levels["root"] = {**ROOT, "refused": True}
    code, shown, said = world.run("root=DEBUG", "-o", "json")
    assert code == 1 and "refuses the token of `http_security`" in said
    document = json.loads(shown)
    assert [each["process"] for each in document["processes"]] == ["aggregator-nyc"]
    assert [each["process"] for each in document["failed"]] == ["mirror-nyc.h1"]


def test_wrong_usage(world: World) -> None:
    for arguments, message in (
        (("nyk",), "did you mean 'nyc'?"),
        (("root=LOUD",), "there is no level 'LOUD', only TRACE, DEBUG, INFO, WARN, ERROR, FATAL"),
        (("nyc", "root"), "'root' is not NAME=VALUE"),
        (("broker-nyc-1", "root=DEBUG"), "heliograph config set broker-logger 1"),
    ):
        code, shown, said = world.run(*arguments)
        assert (code, shown) == (2, "")
        assert message in said
    state = StateDir(world.directory)
    state.deployment_file.write_text(encode_deployment(Deployment(name="d", topology_file="-")))
    code, _, said = world.run("root=DEBUG")
    assert (code, "no mirror worker or aggregator belongs to this host" in said) == (2, True)
