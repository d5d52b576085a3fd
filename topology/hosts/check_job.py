"""What `up` on this host would refuse of a file: a job of its supervisor, for another host.

`python -m topology.hosts.check_job --state-dir DIR` reads the file from its input, as hosts compare
it: without secrets. It prints JSON, changes nothing, and runs the package that is installed.

    {"refusals": [{"reason": TEXT, "details": [TEXT, ...]}, ...], "warnings": [TEXT, ...]}

Secrets are looked for where the file that was applied here lies. They are not read.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from topology.deployment.deployment import Deployment, read_deployment
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology
from topology.hosts.fitness import host_warnings
from topology.hosts.own_host import host_facts, missing_secrets
from topology.operate.own_part import check_part, own_part
from topology.operate.preflight import check_removals, plan_refusals, plan_steps
from topology.problems import DeployError, InvalidTopology

JsonObject = dict[str, Any]


def check(text: str, state: StateDir, environment: Mapping[str, str]) -> JsonObject:
    """Return what `up` with this file would refuse here, and its warnings.

    `environment` is that of the processes.
    """
    try:
        deployment = _own(text, state)
        steps = plan_steps(deployment, state)
    except InvalidTopology as error:
        reason = "the version that is installed here cannot read the file"
        return _document([DeployError(reason, error.lines())], ())
    except DeployError as error:
        return _document([error], ())
    facts = host_facts(deployment, steps, {})
    refusals = plan_refusals(deployment, state, steps, facts)
    try:
        check_removals(deployment, state)
    except DeployError as error:
        if str(error) not in map(str, refusals):
            refusals.append(error)
    warnings = [*host_warnings(facts), *missing_secrets(deployment, steps, environment)]
    return _document(refusals, warnings)


def _own(text: str, state: StateDir) -> Deployment:
    """Return this host's part of the file. Raises InvalidTopology or DeployError."""
    before = read_deployment(state)
    whole = render(parse_topology(text), state, topology_file=Path(before.topology_file))
    deployment = own_part(whole, before.part)
    check_part(deployment, state)
    return deployment


def _document(refusals: Iterable[DeployError], warnings: Iterable[str]) -> JsonObject:
    told = [{"reason": str(each), "details": [*each.details]} for each in refusals]
    return {"refusals": told, "warnings": [*warnings]}


def main() -> int:
    """Check the file of the input; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m topology.hosts.check_job", description=__doc__)
    parser.add_argument("--state-dir", type=Path, required=True, help="of the deployment here")
    arguments = parser.parse_args()
    found = check(sys.stdin.read(), StateDir(arguments.state_dir), os.environ)
    sys.stdout.write(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
