"""Apply the users, ACLs and quotas that a rendered deployment declares: a job of containers.

`python -m topology.rights_job --deployment FILE` waits for the cluster, applies the difference as
`heliograph up` does, and ends. It deletes what it created and the file no longer has.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tenacity import (
    before_sleep_log,
    retry,
    retry_if_exception_type,
    stop_after_delay,
    wait_exponential_jitter,
)

from local_cluster.process_log import add_log_options, configure_log
from topology.deployment.deployment import ClusterView, decode_deployment
from topology.deployment.rights_difference import RightsChange
from topology.operate.cluster_rights import RightsUnavailable, apply_rights
from topology.problems import DeployError

PATIENCE_S: Final = 600.0
"""How long a cluster may take to answer."""
PAUSE_S_MAX: Final = 10.0

log = logging.getLogger("topology.rights_job")


def main() -> int:
    """Apply the rights of every cluster; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m topology.rights_job", description=__doc__)
    parser.add_argument("--deployment", type=Path, required=True, help="JSON file of a deployment")
    add_log_options(parser)
    arguments = parser.parse_args()
    file: Path = arguments.deployment
    configure_log(arguments.log_level, arguments.log_format)
    try:
        for cluster in decode_deployment(file.read_bytes()).clusters:
            _apply(cluster)
    except (OSError, ValueError, DeployError, RightsUnavailable) as error:
        log.error("%s", error)
        return 1
    return 0


@retry(
    retry=retry_if_exception_type(RightsUnavailable),
    stop=stop_after_delay(PATIENCE_S),
    wait=wait_exponential_jitter(initial=0.5, max=PAUSE_S_MAX),
    before_sleep=before_sleep_log(log, logging.INFO),
    reraise=True,
)
def _apply(cluster: ClusterView) -> None:
    def say(changes: Sequence[RightsChange]) -> None:
        for each in changes:
            log.info("%s: %s", cluster.name, each.sentence())

    apply_rights(cluster, deletes=True, on_changes=say)
    log.info("%s has the users, ACLs and quotas of the file", cluster.name)


if __name__ == "__main__":
    sys.exit(main())
