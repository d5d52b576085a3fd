"""aiokafka's options for a cluster, and its errors as Kafka's codes."""

from __future__ import annotations

import logging
from typing import Any

from aggregator.probe.clients import client_options
from topology.admin.cluster_choice import CLIENT_ID
from topology.status.liveness import ClusterAddress


def options_of(address: ClusterAddress) -> dict[str, Any]:
    """Return the options of aiokafka's clients, whose log is silent. Raises SecurityError.

    What it logs while it retries is no error. Failures reach the caller as exceptions.
    """
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    return {**client_options(address.bootstrap, address.security), "client_id": CLIENT_ID}


def code_of(error: BaseException) -> str:
    """Return the text of an error of aiokafka, with Kafka's own code if it has one."""
    from local_cluster.wire.errors import ErrorCode

    number = getattr(error, "errno", None)
    known = {int(code): code.name.upper() for code in ErrorCode}
    if isinstance(number, int) and number in known and number != 0:
        return f"{known[number]}: {error}"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
