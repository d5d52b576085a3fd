"""What commands on files print for people and for programs, and how they refuse a file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from local_cluster.wire.errors import ErrorCode, KafkaError
from spark_global.iceberg.catalogues import open_catalogue
from spark_global.session import SparkStartError
from spark_global.streaming.positions import CheckpointError
from spark_global.streaming.translation import LinkBehindError
from spark_global.views import Aggregate
from tests.support.asked_commands import AskedCommands
from tests.unit.topology.importing.test_strimzi import CLUSTERS_FORM
from topology.deployment.deployment import ClusterView, Deployment, LinkView
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology, shipped_topology

ON = AskedCommands()
TOPOLOGY = """\
name: shop
http_security: {allow_insecure: true}
zookeepers: [{name: main, port: 12181}]
clusters: [{name: ewr, brokers: [{id: 1, port: 19091}]}]
"""
MM2 = """\
clusters = a, b
a.bootstrap.servers = a:1
b.bootstrap.servers = b:1
a->b.enabled = true
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.yaml"
    path.write_text(TOPOLOGY)
    return path


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.yaml"
    path.write_text("name: shop\nclusterz: []\n")
    return path


def test_certificates(tmp_path: Path, broken: Path) -> None:
    file = Path(shutil.copy(shipped_topology("secure"), tmp_path / "secure.yaml"))
    document = ON.json("certificates", str(file))
    assert str(tmp_path / "secure" / "ca.pem") in document["written"]
    assert document["others"] == []
    assert ON.lines("certificates", str(file)) == ["nothing is missing"]
    (tmp_path / "secure" / "ca.key").unlink()
    (tmp_path / "secure" / "broker.pem").unlink()
    assert "let your authority sign" in ON.refusal("certificates", str(file))
    assert ":2:1: clusterz: unknown key" in ON.refusal("certificates", str(broken), code=2)


def test_import_mm2(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(MM2)
    assert "- name: a" in ON.lines("import", "mm2", str(file))
    document = ON.json("import", "mm2", str(file), "--name", "ours")
    assert document["topology"]["name"] == "ours"
    assert document["environment"] == []
    file.write_text(MM2.replace("a.bootstrap.servers = a:1\n", ""))
    assert "a.bootstrap.servers" in ON.refusal("import", "mm2", str(file), code=2)


def test_import_server_properties(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=3\nlisteners=PLAINTEXT://:9092\nzookeeper.connect=zk:2181\n")
    assert "name: kafka" in ON.lines("import", "server-properties", str(file))
    document = ON.json("import", "server-properties", str(file), "--name", "ewr")
    assert document["topology"]["clusters"][0]["name"] == "ewr"
    file.write_text("listeners=nonsense\n")
    said = ON.refusal("import", "server-properties", str(file), code=2)
    assert "server.properties:1: listeners" in said


def test_import_strimzi(tmp_path: Path) -> None:
    file, to = tmp_path / "mm2.yaml", tmp_path / "topology.yaml"
    file.write_text(CLUSTERS_FORM)
    assert ON.lines("import", "strimzi", str(file), "--to", str(to)) == []
    assert parse_topology(to.read_text()).name == "my-mirror-maker"
    assert "exists; nothing" in ON.refusal("import", "strimzi", str(file), "--to", str(to), code=2)
    document = ON.json("import", "strimzi", str(file))
    assert document["topology"]["name"] == "my-mirror-maker"
    assert 6 in [each["line"] for each in document["remarks"]]
    file.write_text("kind: Kafka\n")
    assert "mm2.yaml:1: kind" in ON.refusal("import", "strimzi", str(file), code=2)
    assert "cannot read" in ON.refusal("import", "strimzi", str(tmp_path / "none"), code=2)


@pytest.mark.parametrize("kind", ["systemd", "compose", "kubernetes"])
def test_render(kind: str, file: Path, broken: Path, tmp_path: Path) -> None:
    words = ("render", kind, str(file), "-d", str(tmp_path / "out"))
    lines = ON.lines(*words)
    written = sorted(str(path) for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert written and sorted(lines) == written
    document = ON.json(*words)
    assert sorted(document.pop("files")) == written
    secrets = {"systemd": ["environment", "secret_files"], "kubernetes": ["commands"]}
    assert sorted(document) == secrets.get(kind, [])
    assert "clusterz: unknown key" in ON.refusal("render", kind, str(broken), code=2)
    said = ON.refusal("render", kind, str(file), "-d", str(file / "below"))
    assert "cannot write" in said


def test_what_kubernetes_cannot_express_is_refused(file: Path, tmp_path: Path) -> None:
    words = ("render", "kubernetes", str(file), "-d", str(tmp_path / "out"))
    assert "did you mean 'ewr'?" in ON.refusal(*words, "--domain", "ewt=d")
    file.write_text(TOPOLOGY.replace("http_security: {allow_insecure: true}\n", ""))
    assert "needs a `token` and `tls`" in ON.refusal(*words)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deployment that runs, with two aggregates of one source."""

    def view(name: str) -> ClusterView:
        return ClusterView(name=name, kind="aggregate", datacenter=name, bootstrap="127.0.0.1:1")

    running = Deployment(
        name="shop",
        topology_file="-",
        clusters=(view("ewr"), view("nyc"), view("bos")),
        links=(LinkView(name="ewr-nyc", source="ewr", target="nyc", daemon="m"),),
    )
    monkeypatch.setattr("topology.spark.command.running_aggregate", lambda *_: (running, "nyc"))


MOVING = ("spark", "translate-checkpoint", "old", "new")


def test_translate_checkpoint(two: None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    async def move(old: Path, new: Path, *, here: Any, to: Any, is_source: bool) -> list[int]:
        asked.append(is_source)
        return [3, 4]

    monkeypatch.setattr("spark_global.streaming.moving.move_checkpoint", move)
    assert ON.lines(*MOVING, "--to", "bos") == ["new: positions of batch 3, 4 are those of bos"]
    document = ON.json(*MOVING, "--to", "ewr")
    assert document == {"checkpoint": "new", "positions_of": "ewr", "batches": [3, 4]}
    assert asked == [False, True], "ewr is a source of the aggregate, bos is not"


@pytest.mark.parametrize(
    "error",
    [
        CheckpointError("it has no batch"),
        LinkBehindError("link ewr-bos is behind"),
        KafkaError(ErrorCode.topic_authorization_failed, "flights"),
        OSError("disk full"),
    ],
)
def test_a_checkpoint_that_cannot_be_translated(
    two: None, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> list[int]:
        raise error

    monkeypatch.setattr("spark_global.streaming.moving.move_checkpoint", refuse)
    assert ON.refusal(*MOVING, "--to", "bos") == f"heliograph: old: {error}\n"
    said = ON.refusal(*MOVING, "--to", "boz", code=2)
    assert "no cluster 'boz'; did you mean 'bos'?" in said
    assert "no cluster 'nyc'" in ON.refusal(*MOVING, "--to", "nyc", code=2), "it is there already"


def test_move_table(two: None, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("spark", "move-table", "tables", "--table", "nyc.flights", "--to")
    monkeypatch.setattr("spark_global.iceberg.moving.move_table", lambda *_, **__: None)
    assert ON.lines(*words, "bos")[0].startswith("nyc.flights follows bos; start `materialize`")
    assert ON.json(*words, "bos") == {"table": "nyc.flights", "follows": "bos"}

    def refuse(*_: object, **__: object) -> None:
        raise LinkBehindError("link ewr-bos is behind")

    monkeypatch.setattr("spark_global.iceberg.moving.move_table", refuse)
    assert "table nyc.flights: link ewr-bos is behind" in ON.refusal(*words, "bos")


def test_archive_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "spark-classes-1.jsa"
    archive.write_bytes(bytes(2_000_000))
    monkeypatch.setattr("spark_global.jvm.archiving.make_archive", lambda: archive)
    assert ON.lines("spark", "archive-classes") == [f"{archive}: 2 MB"]
    document = ON.json("spark", "archive-classes")
    assert document == {"archive": str(archive), "size_bytes": 2_000_000}

    def refuse() -> Path:
        raise SparkStartError("Spark did not start (it needs Java 17)")

    monkeypatch.setattr("spark_global.jvm.archiving.make_archive", refuse)
    assert "it needs Java 17" in ON.refusal("spark", "archive-classes")


def test_compact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    answers: list[tuple[str | None, str]] = [(None, "9 files became 2"), ("it is no table", "")]
    monkeypatch.setattr(
        "spark_global.parquet.maintaining.run_upkeep", lambda *_, **__: answers.pop(0)
    )
    assert ON.lines("spark", "compact", str(tmp_path)) == ["9 files became 2"]
    assert ON.refusal("spark", "compact", str(tmp_path)) == "heliograph: it is no table\n"


def test_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_demo(*, output: str, **_: object) -> int:
        print(json.dumps({"output": output}) if output == "json" else "all checks passed")
        return 0

    monkeypatch.setattr("topology.demo.run.run_demo", run_demo)
    assert ON.lines("demo") == ["all checks passed"]
    assert ON.json("demo") == {"output": "json"}
    said = ON.refusal("demo", "--secure", "--topology", "x", code=2)
    assert "--secure has a topology of its own" in said


def test_sql_of_tables(tmp_path: Path) -> None:
    open_catalogue(str(tmp_path), create=True)
    words = ("sql", "--engine", "duckdb", "--catalog", str(tmp_path))
    assert "42" in " ".join(ON.lines(*words, "SELECT 40 + 2 AS answer")).split()
    answer = ON.json(*words, "SELECT 40 + 2 AS answer")
    assert (answer["columns"], answer["rows"]) == (["answer"], [[42]])
    assert "global_a does not exist" in ON.refusal(*words, "SELECT * FROM global_a")


def test_materialize_and_serve_end_with_what_went_wrong(
    two: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    aggregate = Aggregate(name="nyc", bootstrap="h:1", links=())
    monkeypatch.setattr("topology.deployment.aggregate_view.aggregate_view", lambda *_: aggregate)
    monkeypatch.setattr("topology.spark.command.find_deployment", lambda *_: StateDir(tmp_path))
    for module in ("materialize.run_materializing", "serving.serving.run_serving"):
        monkeypatch.setattr(f"spark_global.{module}", lambda *_, **__: "no topic flights")
    for words in (
        ("materialize", "global_flights", "table"),
        ("serve", "global_flights", "--to", "ewr:served", "--checkpoint", "c"),
    ):
        assert ON.refusal("spark", *words) == "heliograph: no topic flights\n"
