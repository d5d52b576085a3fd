"""The command: exit codes, output formats, messages; no process is started."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from spark_global.iceberg.catalogues import open_catalogue
from spark_global.iceberg.moving import WAIT_SECONDS
from spark_global.iceberg.upserts.keys import BUCKETS, TOMBSTONE_HOURS
from spark_global.kept.small_files import GROUP_FILES_MIN, SMALL_BYTES
from spark_global.kept.upkeep import EVERY_MINUTES
from spark_global.materialize import TRIGGER_SECONDS
from spark_global.prompt import IDLE_SECONDS
from spark_global.serving.serving import LANES, RECORDS_MAX
from spark_global.session import LOCAL_MASTER
from spark_global.sql import LIMIT_DEFAULT
from spark_global.streamable import LATE_SECONDS
from spark_global.windowing.answering import OPEN_RECORDS_MAX
from topology import version
from topology.cli.data_commands import sql
from topology.deployment.state_dir import StateDir, default_state_root
from topology.main import app
from topology.model.topology import schema_text
from topology.spark.command import materialize, move_table, serve
from topology.spark.compaction import MIB, compact

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
COMMANDS = (
    "validate",
    "plan",
    "up",
    "status",
    "gaps",
    "down",
    "upgrade",
    "rebalance",
    "zookeeper",
    "demo",
    "sql",
    "schema",
)


@pytest.fixture(autouse=True)
def own_state_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert default_state_root().is_relative_to(tmp_path)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.yaml"
    path.write_text("name: bad\nclusterz: []\n")
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_validate_a_good_file() -> None:
    result = run("validate", CONFIGS / "quickstart.yaml")
    assert result.exit_code == 0
    assert result.stdout.endswith("valid; 4 clusters, 3 links\n")
    document = json.loads(run("validate", CONFIGS / "quickstart.yaml", "-o", "json").stdout)
    assert (document["valid"], document["problems"]) == (True, [])


def test_validate_a_bad_file(bad: Path) -> None:
    result = run("validate", bad)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"{bad}:1:1: clusters: this key is required",
        f"{bad}:2:1: clusterz: unknown key; expected one of clusters, http_security, links,"
        " log_format, name, supervisors, zookeepers;"
        " did you mean 'clusters'?",
    ]


def test_validate_a_bad_file_as_json(bad: Path) -> None:
    result = run("validate", bad, "--output", "json")
    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert document["valid"] is False
    assert document["problems"][1] == {
        "file": str(bad),
        "line": 2,
        "column": 1,
        "key": "clusterz",
        "expected": "unknown key; expected one of clusters, http_security, links, log_format, name,"
        " supervisors, zookeepers",
        "nearest": "clusters",
    }


@pytest.mark.parametrize("other", [("--other-host", "10.0.0.1"), ("--all-hosts",)])
def test_the_data_of_another_host_is_not_deleted(other: tuple[str, ...], tmp_path: Path) -> None:
    result = run("down", "--state-dir", tmp_path / "state", *other, "--yes", "--purge")
    assert result.exit_code == 2
    assert "--purge deletes data of this host only" in result.stderr


def test_one_other_host_or_all_of_them(tmp_path: Path) -> None:
    both = ("--other-host", "10.0.0.1", "--all-hosts", "--yes")
    result = run("down", "--state-dir", tmp_path / "state", *both)
    assert result.exit_code == 2
    assert "either --other-host or --all-hosts" in result.stderr


@pytest.mark.parametrize("command", ["plan", "up"])
def test_bad_yaml_starts_nothing(command: str, bad: Path, tmp_path: Path) -> None:
    result = run(command, bad, "--state-dir", tmp_path / "state")
    assert result.exit_code == 2
    assert "clusterz: unknown key" in result.stderr
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("command", ["validate", "plan", "up"])
def test_a_missing_file_is_said_in_one_line(command: str, tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    result = run(command, path)
    assert result.exit_code == 2
    assert result.stderr == f"heliograph: cannot read {path}: No such file or directory\n"


def test_plan_says_what_up_would_do_and_may_say_it_by_its_exit_code() -> None:
    result = run("plan", CONFIGS / "one-broker.yaml")
    assert result.exit_code == 0
    lines = [each for each in result.stdout.splitlines() if not each.startswith("note: ")]
    assert lines == ["start ZooKeeper zookeeper", "start broker 1 of local"]
    result = run("plan", CONFIGS / "one-broker.yaml", "--exit-code", "-o", "json")
    assert result.exit_code == 3
    steps = json.loads(result.stdout)["steps"]
    assert [(each["action"], each["key"]) for each in steps] == [
        ("start", "zookeeper-zookeeper"),
        ("start", "broker-local-1"),
    ]
    assert not default_state_root().exists()


@pytest.mark.parametrize("command", ["status", "down"])
def test_without_any_deployment(command: str) -> None:
    result = run(command)
    assert result.exit_code == 1
    assert result.stderr == "heliograph: nothing is deployed\n"


def deployed(*names: str) -> None:
    for name in names:
        state = StateDir.for_name(name)
        state.path.mkdir(parents=True)
        text = '{"version": 1, "name": "%s", "topology_file": "", "daemons": [],'
        state.deployment_file.write_text(text % name + ' "clusters": [], "links": []}')


def test_the_only_deployment_needs_no_name() -> None:
    deployed("quickstart")
    result = run("status")
    assert result.exit_code == 4
    assert result.stdout.startswith("quickstart: stopped")
    document = json.loads(run("status", "-o", "json").stdout)
    assert document["state"] == "stopped"


def test_one_of_several_deployments_is_named_or_given_by_its_file() -> None:
    deployed("quickstart", "other")
    result = run("down")
    assert result.exit_code == 2
    assert result.stderr == "heliograph: name the deployment; there are: other, quickstart\n"
    result = run("status", "quickstrat")
    assert result.exit_code == 1
    assert "did you mean 'quickstart'?" in result.stderr
    assert run("status", "other").stdout.startswith("other: stopped")
    result = run("status", CONFIGS / "quickstart.yaml")
    assert result.stdout.startswith("quickstart: stopped")


def test_down_where_nothing_runs_is_well() -> None:
    deployed("quickstart")
    result = run("down")
    assert result.exit_code == 0
    assert result.stdout.startswith("nothing was running\ndata is kept in ")
    state = StateDir.for_name("quickstart")
    assert json.loads(run("down", "--purge", "-o", "json").stdout)["purged"] is True
    assert not state.path.exists()


def test_schema_is_printed() -> None:
    assert run("schema").stdout == schema_text()


def test_an_unknown_option_is_wrong_usage() -> None:
    assert run("plan", CONFIGS / "one-broker.yaml", "--colour").exit_code == 2


def test_the_command_imports_little() -> None:
    """Modules that only some subcommands need are not loaded by all of them."""
    program = (
        "import sys, topology.main\n"
        "heavy = {'pydantic', 'pyspark', 'aiohttp', 'pandas', 'pyarrow', 'kazoo', 'kio'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_sql_shows_as_many_rows_as_a_program_gets() -> None:
    """The option's default is a second constant, because the command must not load Spark."""
    assert inspect.signature(sql).parameters["limit"].default == LIMIT_DEFAULT
    assert "rows_left_out_min" in run("sql", "--help").stdout
    assert run("sql", "--limit", "0", "SELECT 1").exit_code == 2


def test_a_prompt_is_for_spark() -> None:
    assert inspect.signature(sql).parameters["idle_minutes"].default * 60 == IDLE_SECONDS
    done = run("sql", "--engine", "duckdb", "--catalog", "c")
    assert (done.exit_code, "- is for --engine spark" in done.output) == (2, True)


def test_sql_refuses_times_that_make_no_cut() -> None:
    for options in (
        ("--as-of", "yesterday"),
        ("--since", "2026-01-01"),
        ("--allow-missing",),
        ("--as-of", "2026-01-01T00:00Z", "--since", "2026-01-01T01:00+01:00"),
    ):
        assert run("sql", *options, "SELECT 1").exit_code == 2


def test_materialize_has_the_defaults_of_a_program() -> None:
    """The options' defaults are second constants, because the command must not load Spark."""
    parameters = inspect.signature(materialize).parameters
    assert parameters["trigger_seconds"].default == TRIGGER_SECONDS
    assert parameters["late_seconds"].default == LATE_SECONDS
    assert parameters["open_records_max"].default == OPEN_RECORDS_MAX
    assert parameters["master"].default == LOCAL_MASTER
    assert run("spark", "materialize", "--to", "orc", "global_a", "/tmp/a").exit_code == 2
    refused = run("spark", "materialize", "--to", "delta", "--upsert", "key", "global_a", "/tmp/a")
    assert refused.exit_code == 2 and "--upsert is for --to iceberg" in refused.output
    for arguments in (
        ("materialize", "a", "b"),
        ("translate-checkpoint", "a", "b", "--to", "c"),
        ("move-table", "a", "--table", "x.y", "--to", "c"),
    ):
        assert "nothing is deployed" in run("spark", *arguments).output
    done = run("spark", "materialize", "global_a", "a")
    assert (done.exit_code, "nothing is deployed" in done.output) == (1, True)


def test_every_command_with_a_session_takes_a_master_and_settings() -> None:
    """The options' defaults are second constants, because the command must not load Spark."""
    for command in (sql, materialize, compact):
        assert inspect.signature(command).parameters["master"].default == LOCAL_MASTER
    for wrong in ("x", "executor.memory=1g", "spark.master=local"):
        for arguments in (
            ("sql", "SELECT 1"),
            ("spark", "materialize", "v", "p"),
            ("spark", "compact", "c", "--table", "a.b"),
        ):
            done = run(*arguments, "--conf", wrong)
            assert (done.exit_code, f"--conf {wrong}" in done.output) == (2, True)


def test_a_decoding_is_checked_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "decoding.yaml"
    file.write_text("topics:\n  flights:\n    value: {format: jsn, schema: f.json}\n")
    for arguments in (("sql", "SELECT 1"), ("spark", "materialize", "v", "p")):
        done = run(*arguments, "--decoding", str(file))
        assert done.exit_code == 2
        assert ":3:21: decoding.topics.flights.value.format: one of json" in done.output
        done = run(*arguments, "--decoding", str(tmp_path / "none"))
        assert (done.exit_code, "cannot read" in done.output) == (2, True)
    done = run("sql", "SELECT 1", "--engine", "duckdb", "--catalog", "c", "--decoding", str(file))
    assert (done.exit_code, "--decoding is for --engine spark" in done.output) == (2, True)


def test_package_writes_the_archive(tmp_path: Path) -> None:
    done = run("spark", "package", "-o", str(tmp_path / "h.zip"))
    assert (done.exit_code, "pip install cramjam" in done.output) == (0, True)
    assert zipfile.is_zipfile(tmp_path / "h.zip")
    assert run("spark", "package", "-o", str(tmp_path / "none" / "h.zip")).exit_code == 1


def test_serve_has_the_defaults_of_a_program_and_needs_a_topic() -> None:
    parameters = inspect.signature(serve).parameters
    assert parameters["lanes"].default == LANES
    assert parameters["records_max"].default == RECORDS_MAX
    assert parameters["trigger_seconds"].default == TRIGGER_SECONDS
    for to in ("nyc", "nyc:", ":topic"):
        refused = run("spark", "serve", "global_a", "--to", to, "--checkpoint", "c")
        assert refused.exit_code == 2 and "names no topic" in refused.output


def test_iceberg_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    delta = str(tmp_path)
    parameters = inspect.signature(materialize).parameters
    assert (parameters["buckets"].default, parameters["tombstone_hours"].default) == (
        BUCKETS,
        TOMBSTONE_HOURS,
    )
    assert inspect.signature(move_table).parameters["wait_seconds"].default == WAIT_SECONDS
    parameters = inspect.signature(compact).parameters
    assert parameters["files_min"].default == GROUP_FILES_MIN
    assert parameters["small_mib"].default * MIB == SMALL_BYTES
    assert inspect.signature(materialize).parameters["compact_minutes"].default == EVERY_MINUTES
    for arguments in (
        ("spark", "materialize", "global_a", "a", "--table", "x.y"),
        ("spark", "materialize", "global_a", "a", "--to", "iceberg", "--table", "no-namespace"),
        ("spark", "materialize", "global_a", "a", "--upsert", "key"),
        (
            *("spark", "materialize", "a", "a"),
            *("--to", "iceberg", "--upsert", "key", "--sql", "q"),
        ),
        ("spark", "materialize", "global_a", "a", "--to", "delta", "--checkpoint", "c"),
        ("spark", "move-table", "a", "--to", "b", "--table", "no-namespace"),
        ("spark", "compact", "a", "--table", "no-namespace"),
        ("spark", "compact", "a", "--keep-snapshots", "3"),
        ("spark", "compact", "a", "--master", "local[1]"),
        ("spark", "compact", "a", "--conf", "a=b"),
        ("spark", "compact", delta, "--files-min", "7"),
        ("sql", "--engine", "duckdb", "SELECT 1"),
        ("sql", "--catalog", "a", "SELECT 1"),
        ("sql", "--engine", "duckdb", "--catalog", "a", "--as-of", "2026-01-01", "SELECT 1"),
    ):
        assert run(*arguments).exit_code == 2, arguments


def test_duckdb_answers_without_a_deployment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--engine", "duckdb", "--catalog", tmp_path / "tables", "-o", "json")
    found = run("sql", *options, "SELECT 1")
    assert (found.exit_code, "so it is no catalogue" in found.stderr) == (1, True)
    assert not (tmp_path / "tables").exists()
    open_catalogue(str(tmp_path / "tables"), create=True)
    found = run("sql", *options, "SELECT 40 + 2 AS answer")
    assert (found.exit_code, json.loads(found.stdout)["rows"]) == (0, [[42]])
    found = run("sql", *options, "SELECT * FROM global_a")
    assert (found.exit_code, "global_a does not exist" in found.stderr) == (1, True)
    monkeypatch.setitem(version.EXTRAS, "duckdb", ("no_such_module",))
    found = run("sql", *options, "SELECT 1")
    assert (found.exit_code, "heliograph[duckdb]" in found.stderr) == (1, True)


def test_the_demo_runs_on_the_given_master(monkeypatch: pytest.MonkeyPatch) -> None:
    masters = []

    def run_demo(*, master: str, **_: object) -> int:
        masters.append(master)
        return 0

    monkeypatch.setattr("topology.demo.run.run_demo", run_demo)
    assert run("demo", "--master", "spark://h:7077").exit_code == 0
    assert run("demo").exit_code == 0
    assert masters == ["spark://h:7077", LOCAL_MASTER]
    assert "--master" in run("demo", "--help").output
