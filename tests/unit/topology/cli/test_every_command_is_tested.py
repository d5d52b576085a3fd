"""Every command of `heliograph` has a test of its output, of its JSON and of a refusal.

The table names them. A new command, and a test that was renamed or asks another command, break it.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.parsed_commands import parsed_commands
from tests.unit.topology.cli.test_refusals import ON_A_CLUSTER, ON_A_DEPLOYMENT

ROOT: Final = Path(__file__).resolve().parents[4]
UNIT: Final = "tests/unit/topology"
REAL: Final = "tests/real"
FILES: Final = {
    "acls": f"{REAL}/topology/test_acl_commands.py",
    "admin": "tests/support/admin_scenario.py",
    "deployed": f"{REAL}/topology/test_commands_of_a_deployment.py",
    "files": f"{UNIT}/cli/test_file_outputs.py",
    "levels": f"{UNIT}/log_levels/test_log_level.py",
    "links": f"{UNIT}/admin/test_links.py",
    "main": f"{UNIT}/test_main.py",
    "mirror": f"{UNIT}/mirror/test_command.py",
    "mm2": f"{UNIT}/file/test_mm2_properties.py",
    "records": "tests/support/records_scenario.py",
    "shop": f"{UNIT}/cli/test_deployment_outputs.py",
    "spark": f"{REAL}/aggregate/test_spark_commands.py",
    "top": f"{UNIT}/top/test_command.py",
    "traced": f"{REAL}/topology/test_trace.py",
    "upgrade": f"{UNIT}/upgrade/test_command.py",
    "users": f"{REAL}/topology/test_user_and_quota_commands.py",
}
PLAYED_BY: Final = {
    "admin": (f"{REAL}/topology/test_admin_commands.py", "admin_scenario"),
    "records": (f"{REAL}/topology/test_record_commands.py", "records_scenario"),
}
"""The tests that play the scenarios of a module in tests/support."""

TABLE: Final = """\
validate:
    main.test_validate_a_good_file,
    main.test_validate_a_bad_file_as_json,
    main.test_validate_a_bad_file
schema: main.test_schema_is_printed, no JSON, no refusal
certificates: files.test_certificates
plan:
    main.test_plan_says_what_up_would_do_and_may_say_it_by_its_exit_code,
    =,
    main.test_bad_yaml_starts_nothing
up: shop.test_up
status: main.test_the_only_deployment_needs_no_name, =, main.test_without_any_deployment
down:
    main.test_down_where_nothing_runs_is_well,
    =,
    main.test_the_data_of_another_host_is_not_deleted
upgrade: shop.test_upgrade, =, upgrade.test_refusals
backup: shop.test_backup_and_restore
restore: shop.test_backup_and_restore
produce: records.records
consume: records.records
top:
    top.test_once_prints_tables_with_rates,
    deployed.test_top_shows_every_part_with_its_rates,
    top.test_a_screen_needs_a_terminal_and_a_deployment
why: shop.test_why
trace:
    traced.test_people_see_the_way_as_a_table,
    traced.test_a_copy_is_traced_while_its_source_is_silent,
    traced.test_what_cannot_be_traced_is_told
doctor: shop.test_doctor, =, no deployment
support-bundle: shop.test_support_bundle
log-level: levels.test_own_levels_are_shown_and_all_of_them, =, levels.test_wrong_usage
dashboards: shop.test_dashboards
gaps: shop.test_gaps, =, no deployment
audit: shop.test_audit
completeness: shop.test_completeness
rebalance: shop.test_rebalance
demo: files.test_demo
sql: files.test_sql_of_tables
topic list: admin.topics
topic describe: admin.topics
topic create: admin.topics
topic alter: admin.topics
topic delete: admin.deletion
topic trim: admin.trimming
group list: admin.groups, =, no cluster
group describe: admin.groups
group reset: admin.groups
group delete: admin.groups
group forget: admin.groups
acl list: acls.test_acls, =, no cluster
acl create: acls.test_acls
acl delete: acls.test_acls
user list: users.test_users_and_quotas, =, no cluster
user create: users.test_users_and_quotas
user alter: users.test_users_and_quotas
user delete: users.test_users_and_quotas
quota list: users.test_users_and_quotas, =, no cluster
quota set: users.test_users_and_quotas
quota remove: users.test_users_and_quotas
zookeeper status: shop.test_zookeeper
zookeeper secure: shop.test_zookeeper
zookeeper unsecure: shop.test_zookeeper
config describe: admin.configs
config set: admin.configs
broker list: admin.brokers, =, no cluster
broker describe: admin.brokers
broker elect-leaders: admin.brokers
transaction list: admin.transactions, =, no cluster
transaction describe: admin.transactions
transaction producers: admin.transactions
transaction hanging: admin.transactions, =, no cluster
transaction abort: admin.transactions
link list: links.test_list, =, no deployment
link describe: links.test_describe_a_link_whose_worker_does_not_run
mirror run:
    mm2.test_check_shows_the_workers_and_the_remarks,
    no JSON,
    mm2.test_check_shows_the_workers_and_the_remarks
mirror sync:
    mirror.test_a_change_that_a_target_refuses_is_no_success,
    =,
    mirror.test_what_cannot_be_done_is_said
mirror pause:
    mirror.test_what_holds_after_an_order_is_shown,
    =,
    mirror.test_what_cannot_be_done_is_said
mirror resume:
    mirror.test_what_holds_after_an_order_is_shown,
    =,
    mirror.test_what_cannot_be_done_is_said
mirror throttle: mirror.test_rates_are_set, =, mirror.test_what_cannot_be_done_is_said
mirror retry:
    mirror.test_what_stands_still_is_tried_again,
    =,
    mirror.test_what_cannot_be_done_is_said
mirror repair:
    mirror.test_the_ways_to_repair_are_shown_and_none_is_chosen,
    mirror.test_a_repair_is_ordered,
    =
spark compact: files.test_compact, no JSON, files.test_compact
spark materialize:
    spark.test_a_query_over_streams_is_kept,
    no JSON,
    files.test_materialize_and_serve_end_with_what_went_wrong
spark package: main.test_package_writes_the_archive, no JSON, main.test_package_writes_the_archive
spark serve:
    spark.test_a_served_query_moves_to_another_aggregate,
    no JSON,
    files.test_materialize_and_serve_end_with_what_went_wrong
spark move-table: files.test_move_table
spark archive-classes: files.test_archive_classes
spark translate-checkpoint:
    files.test_translate_checkpoint,
    =,
    files.test_a_checkpoint_that_cannot_be_translated
import mm2: files.test_import_mm2
import strimzi: files.test_import_strimzi
import server-properties: files.test_import_server_properties
render systemd: files.test_render
render compose: files.test_render
render kubernetes: files.test_render
"""
"""Command: test of its output, of its JSON, of a refusal. `=` is the test before; one test alone
is all three. `no deployment` and `no cluster` are the tests in test_refusals.py."""

WITHOUT: Final = {
    ("schema", "no JSON"): "its output is a JSON document",
    ("schema", "no refusal"): "it takes nothing and reads nothing that could be wrong",
    ("mirror run", "no JSON"): "it runs until it is stopped; the workers' HTTP has their state",
    ("spark compact", "no JSON"): "it prints one sentence; the table's own log has the files",
    ("spark materialize", "no JSON"): "it writes a table until it is stopped, and prints nothing",
    ("spark package", "no JSON"): "it prints the given path and `pip install` lines; -o is --out",
    ("spark serve", "no JSON"): "it writes a topic until it is stopped, and prints nothing",
}
WALKED: Final = {"no cluster": ON_A_CLUSTER, "no deployment": ON_A_DEPLOYMENT}


class Row(NamedTuple):
    output: str
    json: str
    refusal: str


def read_table(text: str) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for line in text.replace("\n    ", " ").splitlines():
        command, _, rest = line.partition(": ")
        named = rest.split(", ")
        if len(named) == 1:
            named *= 3
        for index, each in enumerate(named):
            if each == "=":
                named[index] = named[index - 1]
        assert command not in rows, f"{command} has two rows"
        rows[command] = Row(*named)
    return rows


ROWS: Final = read_table(TABLE)


@cache
def definitions(file: str) -> dict[str, ast.AST]:
    """Return what a file defines at its top, by name."""
    found: dict[str, ast.AST] = {}
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            found |= {each.id: node for each in node.targets if isinstance(each, ast.Name)}
    return found


@cache
def used(file: str, name: str) -> frozenset[str]:
    """Return the words in strings, and the names, of a function and of what it uses in its file."""
    known, seen, words = definitions(file), {name}, set[str]()
    waiting = [name]
    while waiting:
        for node in ast.walk(known[waiting.pop()]):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words |= {*node.value.split()}
            elif isinstance(node, ast.Attribute):
                words.add(f".{node.attr}")
            elif isinstance(node, ast.keyword):
                words.add(f"{node.arg}=")
            elif isinstance(node, ast.Name | ast.arg):
                called = node.id if isinstance(node, ast.Name) else node.arg
                words.add(f"<{called}>")
                if called in known and called not in seen:
                    seen.add(called)
                    waiting.append(called)
    return frozenset(words)


def uses(reference: str) -> frozenset[str]:
    """Return `used` of the test that the table names; it exists and is run."""
    key, _, name = reference.partition(".")
    file = FILES[key]
    assert name in definitions(file), f"{file} has no {name}"
    if key in PLAYED_BY:
        player, module = PLAYED_BY[key]
        assert f"{module}.{name}(" in (ROOT / player).read_text(), f"{player} plays no {name}"
    else:
        assert name.startswith("test_"), f"{name} is no test"
    return used(file, name)


def test_the_table_has_every_command() -> None:
    assert sorted(ROWS) == sorted(parsed_commands())
    reasons = {(name, each) for name, row in ROWS.items() for each in row if each.startswith("no ")}
    assert {each for each in reasons if each[1] not in WALKED} == WITHOUT.keys()


@pytest.mark.parametrize("command", ROWS)
def test_the_tests_exist_and_ask_the_command(command: str) -> None:
    row = ROWS[command]
    for reference in {*row}:
        if reference in WALKED:
            assert command in WALKED[reference]
        elif (command, reference) not in WITHOUT:
            assert not {*command.split()} - uses(reference), reference
    if not row.json.startswith("no "):
        assert uses(row.json) & {"json", ".json", "<HeliographCommand>"}, row.json
    if not row.refusal.startswith("no "):
        signs = {".refusal", ".complain", ".exit_code", "code=", "<code>"}
        assert uses(row.refusal) & signs, row.refusal
