"""Quotas of the file in a deployment, and clusters whose last rights leave the file."""

from __future__ import annotations

from pathlib import Path

from topology.deployment.deployment import Deployment, decode_deployment, encode_deployment
from topology.deployment.removals import with_former_rights
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology
from topology.model.quotas import QuotaKey

LIMITED = """\
name: limited
clusters:
  - name: jfk
    brokers: [{id: 1, port: 9092}]
    quotas: [{user: alice, default_client_id: true, request_percentage: 12.5}]
"""
PLAIN = LIMITED[: LIMITED.index("    quotas")]


def deployment(text: str) -> Deployment:
    return render(parse_topology(text), StateDir(Path("/s")), topology_file=Path("/t.yaml"))


def test_quotas_need_no_security_and_are_kept_with_the_deployment() -> None:
    (jfk,) = decode_deployment(encode_deployment(deployment(LIMITED)).encode()).clusters
    assert jfk.rights is not None and not jfk.rights.has_authorizer
    key = QuotaKey((("user", "alice"), ("client-id", None)), "request_percentage")
    assert jfk.rights.quotas == ((key, 12.5),)
    assert jfk.rights.counted == "1 quotas"


def test_a_cluster_that_had_rights_is_still_compared() -> None:
    before, after = deployment(LIMITED), deployment(PLAIN)
    assert after.clusters[0].rights is None
    assert with_former_rights(after, None) == after
    for _ in range(2):  # Also when the first `up` after the edit has failed.
        before = with_former_rights(after, before)
        rights = before.clusters[0].rights
        assert rights is not None and rights.is_empty
    assert with_former_rights(deployment(LIMITED), before) == deployment(LIMITED)
