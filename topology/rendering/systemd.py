"""Units of systemd for a topology: one tree of files for each host. Pure.

    HOST/etc/systemd/system/heliograph-NAME.target        starts and stops everything of the host
    HOST/etc/systemd/system/heliograph-NAME-KEY.service   one process
    HOST/var/lib/heliograph/NAME/settings/                its settings, as `up` writes them

Brokers, mirror workers and aggregators notify systemd (Type=notify) when they are ready and while
their event loop turns. ZooKeeper does not (Type=exec). `systemctl reload` makes mirror workers and
aggregators take over edited links.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from topology.deployment.deployment import Daemon, Deployment
from topology.deployment.parts_of_hosts import hosts_of
from topology.rendering.processes import (
    CONFIGURATION,
    OPEN_FILES_MAX,
    STATE,
    STOP_S,
    command_of,
    log_dirs_of,
)

UNITS: Final = "etc/systemd/system"
USER: Final = "heliograph"
WATCHDOG_S: Final = 30
RELOAD: Final = "/bin/kill -HUP $MAINPID"
RELOADING_ROLES: Final = frozenset({"mirror", "aggregator"})
"""Roles whose processes reload the links of their settings on SIGHUP."""
FENCED_EXIT_CODE: Final = 3
"""A mirror worker whose id another process has; a restart would fence that one (process.py)."""


def state_directory(name: str) -> Path:
    return Path(STATE, name)


def topology_file(name: str) -> Path:
    """Return where the topology file would be: relative names start in its directory."""
    return Path(CONFIGURATION, name, "topology.yaml")


def systemd_files(deployment: Deployment, python: str) -> dict[str, str]:
    """Return the text of each file by its path below the output directory.

    `deployment` is rendered for `state_directory` and `topology_file`.
    """
    files: dict[str, str] = {}
    for host in hosts_of(deployment):
        here = [each for each in deployment.daemons if each.host == host]
        root = host.replace(":", "-")
        files[f"{root}/{UNITS}/{_target(deployment)}"] = _target_text(deployment, here)
        for daemon in here:
            unit = f"{root}/{UNITS}/{_unit(deployment, daemon.key)}"
            files[unit] = _service_text(deployment, daemon, here, python)
            files |= {f"{root}{path}": text for path, text in daemon.files.items()}
    return files


def _target(deployment: Deployment) -> str:
    return f"heliograph-{deployment.name}.target"


def _unit(deployment: Deployment, key: str) -> str:
    """Return the name of a unit; a colon, as in an IPv6 address, is allowed there."""
    return f"heliograph-{deployment.name}-{key}.service"


def _target_text(deployment: Deployment, here: Iterable[Daemon]) -> str:
    return _ini(
        {
            "Unit": [
                ("Description", f"Heliograph {deployment.name}"),
                *(("Wants", _unit(deployment, each.key)) for each in here),
            ],
            "Install": [("WantedBy", "multi-user.target")],
        }
    )


def _service_text(
    deployment: Deployment, daemon: Daemon, here: Iterable[Daemon], python: str
) -> str:
    local = {each.key for each in here}
    state = state_directory(deployment.name)
    after = ["network-online.target"]
    after += [_unit(deployment, key) for key in daemon.after if key in local]
    notifies = daemon.role != "zookeeper"
    kind = [("Type", "exec")]
    if notifies:
        kind = [("Type", "notify"), ("NotifyAccess", "main"), ("WatchdogSec", str(WATCHDOG_S))]
    outside = [each for each in log_dirs_of(daemon) if not Path(each).is_relative_to(state)]
    # A broker creates CLUSTER/broker-ID below an entry of log_dirs, which must exist.
    writable = [str(Path(each).parents[1]) for each in outside]
    name = deployment.name
    service = [
        *kind,
        ("ExecStart", " ".join(_quoted(each) for each in command_of(daemon, python))),
        *([("ExecReload", RELOAD)] if daemon.role in RELOADING_ROLES else []),
        ("User", USER),
        ("Group", USER),
        ("StateDirectory", " ".join(f"heliograph/{name}{sub}" for sub in ("", "/ready", "/data"))),
        ("StateDirectoryMode", "0700"),
        ("WorkingDirectory", str(state)),
        ("EnvironmentFile", f"-{CONFIGURATION}/{name}/environment"),
        ("Restart", "always"),
        ("RestartSec", "1"),
        *([("RestartPreventExitStatus", str(FENCED_EXIT_CODE))] if daemon.role == "mirror" else []),
        # A broker waits for its ZooKeeper, and a mirror worker for its clusters, for any time.
        ("TimeoutStartSec", "infinity"),
        ("TimeoutStopSec", str(STOP_S)),
        ("LimitNOFILE", str(OPEN_FILES_MAX)),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        *(("ReadWritePaths", _quoted(each)) for each in writable),
    ]
    return _ini(
        {
            "Unit": [
                ("Description", f"Heliograph {name}: {daemon.label}"),
                ("Wants", "network-online.target"),
                *(("After", each) for each in after),
                ("PartOf", _target(deployment)),
            ],
            "Service": service,
            "Install": [("WantedBy", _target(deployment))],
        }
    )


def _quoted(text: str) -> str:
    """Return a word of a unit file: specifiers, variables, quotes and blanks as themselves."""
    escaped = text.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$").replace('"', '\\"')
    return f'"{escaped}"' if any(each.isspace() for each in text) or '"' in text else escaped


def _ini(sections: dict[str, list[tuple[str, str]]]) -> str:
    blocks = [
        f"[{section}]\n" + "".join(f"{key}={value}\n" for key, value in entries)
        for section, entries in sections.items()
    ]
    return "\n".join(blocks)
