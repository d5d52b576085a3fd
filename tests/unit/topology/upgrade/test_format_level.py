"""A level stands for the versions of all formats that another version may read."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import pytest

from local_cluster.controller.model.format_level import (
    FORMAT_LEVEL,
    decode_level,
    encode_level,
    level_problem,
)
from local_cluster.controller.model.znode_json import UnreadableZnodeError

VERSIONS: Final = {
    1: {
        "local_cluster.controller.model.broker_znodes.BROKER_VERSION": 5,
        "local_cluster.controller.model.broker_znodes.CONTROLLER_VERSION": 2,
        "local_cluster.controller.model.delta_json.DELTA_VERSION": 1,
        "local_cluster.controller.model.topic_znodes.STATE_VERSION": 1,
        "local_cluster.controller.model.topic_znodes.TOPIC_VERSION": 3,
        "local_cluster.groups.records.GROUP_KEY_VERSION": 2,
        "local_cluster.log.segment.transaction_index._VERSION": 0,
        "local_cluster.log.state.checkpoints._VERSION": 0,
        "local_cluster.log.state.producer_snapshot._VERSION": 1,
        "local_cluster.records.control._VERSION": 0,
        "local_cluster.security.authorization.acl_znodes._VERSION": 1,
        "local_cluster.transactions.records.KEY_VERSION": 0,
        "mirror_maker.formats.completeness.statement.COMPLETENESS_VERSION": 1,
        "mirror_maker.formats.gaps.GAPS_VERSION": 1,
        "mirror_maker.formats.receipts.RECEIPTS_VERSION": 1,
        "mirror_maker.formats.records.FORMAT_VERSION": 1,
        "mirror_maker.formats.verdicts.VERDICTS_VERSION": 1,
        "mirror_maker.formats.workers.FORMAT_VERSION": 1,
        "mirror_maker.formats.written_rights.RIGHTS_VERSION": 1,
        "aggregator.probe.record.FORMAT_VERSION": 1,
        "topology.deployment.deployment.FORMAT_VERSION": 1,
        "topology.deployment.rights_difference.OWNED_VERSION": 1,
        "topology.shared_file.generations.FORMAT_VERSION": 1,
        "topology.supervisor.process_journal.FORMAT_VERSION": 1,
        "topology.upgrade.upgrade_plan.FORMAT_VERSION": 1,
    }
}
"""Versions of formats by level. A new version of one needs a new level, which only a finalized
upgrade reaches: until then the former one is written, so that the former package reads it."""


def test_the_versions_of_formats_belong_to_the_level() -> None:
    found = {}
    for name in VERSIONS[FORMAT_LEVEL]:
        module, _, attribute = name.rpartition(".")
        found[name] = getattr(import_module(module), attribute)
    assert found == VERSIONS[FORMAT_LEVEL]


def test_a_version_reads_levels_up_to_its_own() -> None:
    assert level_problem(decode_level(encode_level(FORMAT_LEVEL))) is None
    assert level_problem(FORMAT_LEVEL + 1) is not None


@pytest.mark.parametrize(
    "payload", [b"", b"{}", b'{"level":0}', b'{"level":"1"}', b'{"level":true}']
)
def test_other_contents_are_no_level(payload: bytes) -> None:
    with pytest.raises(UnreadableZnodeError):
        decode_level(payload)
