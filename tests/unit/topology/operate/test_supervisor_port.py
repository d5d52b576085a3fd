"""`up` starts nothing while another process has the port of the supervisor."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from local_cluster.client.auth.security import Secret
from local_cluster.http_security.settings import HttpSecurity
from topology.deployment.deployment import Daemon, Deployment, encode_deployment
from topology.deployment.state_dir import StateDir
from topology.deployment.supervisor_ports import SupervisorPorts
from topology.operate.preflight import check_supervisor_port
from topology.problems import DeployError

HOST = "127.0.1.1"


def test_a_port_that_is_taken_is_refused_unless_our_supervisor_has_it(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.create()
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        security = HttpSecurity(token=Secret(file="token"))
        deployment = Deployment(
            name="flights",
            topology_file="/t.yaml",
            daemons=(Daemon(key="b", role="broker", label="b", argv=("b",), host=HOST),),
            supervisors=SupervisorPorts(port=port, security=security),
        )
        with pytest.raises(DeployError, match="the supervisor cannot use its port") as refused:
            check_supervisor_port(deployment, state)
        assert refused.value.details == (f"supervisor: {HOST}:{port} is in use by another process",)
        without = replace(deployment, supervisors=None)
        check_supervisor_port(without, state)
        with state.locked() as held:
            assert held, "as our supervisor holds it"
            state.deployment_file.write_text(encode_deployment(without))
            with pytest.raises(DeployError):
                check_supervisor_port(deployment, state)
            state.deployment_file.write_text(encode_deployment(deployment))
            check_supervisor_port(deployment, state)
        with pytest.raises(DeployError):
            check_supervisor_port(deployment, state)
    check_supervisor_port(deployment, state)
