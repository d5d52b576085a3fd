"""A Compose file for a topology, and the settings that it mounts. Pure.

    DIR/compose.yaml
    DIR/settings/NAME.json    settings of one container

Each broker has one more listener, for clients on the machine. Its port and those of the aggregators
are published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from topology.model import Topology
from topology.model.scalars import LOOPBACK
from topology.rendering.containers import (
    DATA,
    PYTHON,
    RIGHTS,
    SETTINGS,
    USER_ID,
    Container,
    containers_of,
    rendered,
)
from topology.rendering.placed import HTTP_PORT, Place, dns_label, free_port, placed
from topology.rendering.processes import CONFIGURATION, OPEN_FILES_MAX, STATE, STOP_S
from topology.rendering.yaml_text import yaml_text

CHECK_INTERVAL_S: Final = 10
START_S: Final = 600
"""How long a container may start without counting as unhealthy: a broker reads its logs."""


def compose_files(
    topology: Topology, *, image: str, source: Path, host: str = LOOPBACK
) -> dict[str, str]:
    """Return the text of each file by its path below the output directory.

    `source` is the topology file on this machine, where relative names of secrets start. Clients
    outside of the containers reach the brokers at `host`. Raises DeployError.
    """
    here = placed(topology, lambda place: place.name, host)
    containers = containers_of(rendered(here))
    ports = _published(topology, here)
    services = {each.name: _service(each, image, ports, host) for each in containers}
    document: dict[str, Any] = {"name": dns_label(here.name), "services": services}
    document["volumes"] = {each.name: {} for each in containers if each.data}
    settings = {name: text for each in containers for name, text in each.settings.items()}
    document["configs"] = {_label(name): {"file": f"./settings/{name}"} for name in settings}
    files = dict.fromkeys(path for each in containers for path in each.files)
    if files:
        document["secrets"] = {
            _label(path): {"file": _on_this_machine(path, source)} for path in files
        }
    comment = f"heliograph render compose {source.name}; docs/operations/containers.md"
    return {
        "compose.yaml": yaml_text(comment, document),
        **{f"settings/{name}": text for name, text in settings.items()},
    }


def _published(topology: Topology, here: Topology) -> dict[str, list[tuple[int, int]]]:
    """Return the (port of the machine, port of the container) pairs of each container."""
    found: dict[str, list[tuple[int, int]]] = {}
    taken: set[int] = set()
    for cluster in here.clusters:
        outside = [each.name for each in cluster.listeners if each.advertised_host is not None]
        for broker in cluster.broker_list:
            place = Place("broker", cluster.name, broker.id, "")
            found[place.name] = [(broker.ports[name],) * 2 for name in outside]
            taken |= {port for port, _ in found[place.name]}
    for cluster in topology.clusters:
        if cluster.has_aggregator:
            wanted = (cluster.aggregator and cluster.aggregator.port) or HTTP_PORT
            place = Place("aggregator", cluster.name, 1, "")
            found[place.name] = [(free_port(wanted, taken), HTTP_PORT)]
    return found


def _service(
    container: Container,
    image: str,
    ports: Mapping[str, Iterable[tuple[int, int]]],
    host: str,
) -> dict[str, Any]:
    first = f"{SETTINGS}/{next(iter(container.settings))}"
    is_job = container.place.role == RIGHTS
    service: dict[str, Any] = {
        "image": image,
        "command": container.command(first, str(container.place.number)),
        "user": f"{USER_ID}:{USER_ID}",
        "restart": "on-failure" if is_job else "unless-stopped",
        "stop_grace_period": f"{STOP_S}s",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "ulimits": {"nofile": OPEN_FILES_MAX},
        "tmpfs": ["/tmp", f"{STATE}/ready:uid={USER_ID},gid={USER_ID},mode=0700"],
        "configs": [
            {"source": _label(name), "target": f"{SETTINGS}/{name}"} for name in container.settings
        ],
    }
    if container.files:
        service["secrets"] = [{"source": _label(p), "target": p} for p in container.files]
    if container.variables:
        service["environment"] = list(container.variables)
    if container.data:
        # An absolute log directory is one of the machine, as for `up`.
        service["volumes"] = [
            f"{container.name if path == DATA else path}:{path}" for path in container.data
        ]
    published = [
        f"{host if host == LOOPBACK else '0.0.0.0'}:{outer}:{inner}"
        for outer, inner in ports.get(container.name, ())
    ]
    if published:
        service["ports"] = published
    if container.after:
        service["depends_on"] = list(container.after)
    if not is_job:
        what = ["http", f"{container.http_scheme}://{LOOPBACK}:{HTTP_PORT}/readyz"]
        if container.place.role == "zookeeper":
            what = ["zookeeper", first]
        service["healthcheck"] = {
            "test": ["CMD", PYTHON, "-P", "-m", "topology.container_check", *what],
            "interval": f"{CHECK_INTERVAL_S}s",
            "timeout": f"{CHECK_INTERVAL_S}s",
            "start_period": f"{START_S}s",
        }
    return service


def _label(name: str) -> str:
    """Return the name of a config or secret in the Compose file."""
    return name.removeprefix(f"{CONFIGURATION}/").strip("/").replace("/", "-")


def _on_this_machine(path: str, source: Path) -> str:
    """Return where a file of a container is on the machine that renders."""
    inside = PurePosixPath(path)
    if inside.is_relative_to(CONFIGURATION):
        return str(source.absolute().parent / inside.relative_to(CONFIGURATION))
    return path
