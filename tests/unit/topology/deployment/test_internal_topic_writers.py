"""Who may change names of mirrors by a general ACL, from the file to the settings of brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.settings import BrokerSettings, load_settings
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology

SECURED = """\
name: secured
clusters:
  - name: jfk
    listeners:
      - name: SECURE
        security_protocol: SASL_PLAINTEXT
        sasl:
          mechanisms: [SCRAM-SHA-512, OAUTHBEARER]
          users: {broker: {env: B}, admin: {file: a}}
          oauth: {keys_file: k}
    inter_broker_security:
      {protocol: SASL_PLAINTEXT, mechanism: SCRAM-SHA-512, username: broker, password: {env: B}}
    security:
      {protocol: SASL_PLAINTEXT, mechanism: SCRAM-SHA-512, username: admin, password: {file: a}}
    principals:
      mirror: {username: mirror, password: {file: m}}
      aggregator: {username: aggregator, password: {file: g}}
    authorizer: {super_users: ["User:admin"]}
    acls:
      - {principal: "User:app", operations: [WRITE], topics: ["*"]}
    brokers: [{id: 1, port: 9092}]
"""
BY_NAME = "{username: mirror, password: {file: m}}"
BY_TOKEN = "{oauth: {token_file: t}}"
ALL = ("topics", "groups", "transactional_ids")
NAMED = '- {principal: "User:m", operations: [WRITE], topics: [heliograph-], prefixed: true}'


def broker_settings(text: str, directory: Path) -> BrokerSettings:
    state = StateDir(directory / "state")
    deployment = render(parse_topology(text), state, topology_file=directory / "t.yaml")
    (settings,) = deployment.daemon("broker-jfk-1").files.values()
    file = directory / "settings.json"
    file.write_text(settings)
    return load_settings(file)


def writers(text: str, directory: Path) -> dict[str, tuple[str, ...]] | None:
    return broker_settings(text, directory).internal_topic_writers


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "",
            "",
            {"heliograph-": ("User:mirror",), "heliograph-probe.": ("User:aggregator",)},
        ),
        # A mirror that connects as `security` says is a super user, and named all the same.
        (
            f"      mirror: {BY_NAME}\n",
            "",
            {"heliograph-": ("User:admin",), "heliograph-probe.": ("User:aggregator",)},
        ),
        # Only the broker knows the principal of a token, so the mirror might be locked out.
        (BY_NAME, BY_TOKEN, None),
        (
            '- {principal: "User:app", operations: [WRITE], topics: ["*"]}',
            NAMED,
            {"heliograph-": ("User:mirror",), "heliograph-probe.": ("User:aggregator",)},
        ),
        ("    authorizer: {super", "    # authorizer: {super", None),
    ],
)
def test_writers(
    old: str, new: str, expected: dict[str, tuple[str, ...]] | None, tmp_path: Path
) -> None:
    text = SECURED.replace(old, new)
    if "# authorizer" in new:
        text = text[: text.index("    acls:")] + text[text.index("    brokers:") :]
    assert writers(text, tmp_path) == expected


def test_an_acl_on_internal_topics_is_proof_that_an_unknown_mirror_has_one(tmp_path: Path) -> None:
    text = SECURED.replace(BY_NAME, BY_TOKEN).replace(
        "    brokers:", f"      {NAMED}\n    brokers:"
    )
    assert writers(text, tmp_path) == {"heliograph-probe.": ("User:aggregator",)}


@pytest.mark.parametrize(
    ("mirror", "spark", "named", "expected"),
    [
        (BY_NAME, "{username: spark, password: {file: s}}", "", ALL),
        # A service whose principal nobody knows keeps what an ACL on `*` gives it.
        (BY_TOKEN, "{username: spark, password: {file: s}}", "", ("topics", "transactional_ids")),
        (BY_TOKEN, "{username: spark, password: {file: s}}", "groups", ALL),
        (BY_NAME, BY_TOKEN, "", ("topics", "groups")),
        (BY_NAME, BY_TOKEN, "transactional_ids", ALL),
        (BY_TOKEN, BY_TOKEN, "", ("topics",)),
    ],
)
def test_no_service_loses_its_group_or_its_transactional_ids(
    mirror: str, spark: str, named: str, expected: tuple[str, ...], tmp_path: Path
) -> None:
    acls = NAMED
    if named:
        acls += f'\n      - {{principal: "User:m", operations: [ALL], {named}: [heliograph-x]}}'
    text = SECURED.replace(BY_NAME, f"{mirror}\n      spark: {spark}").replace(
        "    brokers:", f"      {acls}\n    brokers:"
    )
    assert broker_settings(text, tmp_path).internal_types_reserved == expected
