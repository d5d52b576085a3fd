"""Which ACL a znode gets: as Kafka 3.9's ZkData.defaultAcls."""

from __future__ import annotations

import pytest

from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.znode_access import SECURE_ROOTS, ZnodeAccess, access_of


@pytest.mark.parametrize(
    ("path", "access"),
    [
        ("/", ZnodeAccess.WORLD_READABLE),
        ("/brokers/ids/1", ZnodeAccess.WORLD_READABLE),
        ("/brokers/topics/t/partitions/0/state", ZnodeAccess.WORLD_READABLE),
        ("/config/topics/users", ZnodeAccess.WORLD_READABLE),
        ("/config/changes/config_change_", ZnodeAccess.WORLD_READABLE),
        ("/config/clients/c", ZnodeAccess.WORLD_READABLE),
        ("/kafka-acl/Topic/t", ZnodeAccess.WORLD_READABLE),
        ("/controller", ZnodeAccess.WORLD_READABLE),
        ("/delegation_token", ZnodeAccess.WORLD_READABLE),
        ("/heliograph-declared-rights", ZnodeAccess.WORLD_READABLE),
        ("/heliograph-mirror-producer-ids", ZnodeAccess.WORLD_READABLE),
        ("/config/users", ZnodeAccess.CREATOR_ONLY),
        ("/config/users/alice/clients/c", ZnodeAccess.CREATOR_ONLY),
        ("/config/users-of-others", ZnodeAccess.WORLD_READABLE),
        ("/config/brokers", ZnodeAccess.CREATOR_ONLY),
        ("/config/brokers/1", ZnodeAccess.CREATOR_ONLY),
        ("/delegation_token/tokens/1", ZnodeAccess.CREATOR_ONLY),
        ("/consumers", ZnodeAccess.OPEN),
        ("/consumers/g", ZnodeAccess.WORLD_READABLE),
    ],
)
def test_the_world_reads_what_holds_no_secret(path: str, access: ZnodeAccess) -> None:
    assert access_of(path, sets_acl=True) is access
    assert access_of(path, sets_acl=False) is ZnodeAccess.OPEN


def test_a_migration_reaches_every_path_of_brokers_and_tools() -> None:
    """A path that is added to znode_paths.py belongs below a root."""
    paths = {
        value
        for name, value in vars(znode_paths).items()
        if name.isupper() and isinstance(value, str) and value.startswith("/")
    }
    paths |= {*znode_paths.PERSISTENT_PATHS}
    outside = {
        path
        for path in paths
        if not any(path == root or path.startswith(f"{root}/") for root in SECURE_ROOTS)
    }
    assert len(paths) > 20 and outside == {znode_paths.CONSUMERS}
