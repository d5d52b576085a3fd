"""What `up` with this host's file would do on another host.

Both files are rendered here: the one that the other host runs, and the one of this host. So paths,
Java and the interpreter of the other host do not matter, and secrets are not compared.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from topology.deployment.deployment import Daemon, Deployment
from topology.deployment.plan import Running, Step, kept_service, plan
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.ensemble.nodes import kept_node
from topology.file.load import parse_topology
from topology.hosts.answers import Answer
from topology.problems import InvalidTopology

Daemons = dict[str, Daemon]


class PlansOfHosts:
    """Compares the file of this host with what each of the others runs."""

    def __init__(self, deployment: Deployment, state: StateDir) -> None:
        self._file = Path(deployment.topology_file)
        self._state = state
        self._rendered: dict[str, Daemons | None] = {}
        self._wanted = self._daemons_of(deployment.file_text) or {}

    def steps(self, host: str, answer: Answer) -> list[Step] | None:
        """Return the steps on a host that answers.

        None if it does not say which file it runs, or if this version cannot read that.
        """
        report = answer.report
        before = None if report is None else self._daemons_of(report["file"])
        if report is None or before is None:
            return None
        running: dict[str, Running] = {}
        for row in answer.daemons:
            if row["pid"] is None or row["host"] != host:
                continue
            daemon = before.get(row["key"])
            running[row["key"]] = (
                Running(label=row["label"])
                if daemon is None
                else Running.of(replace(daemon, version=row["version"] or ""))
            )
        wanted = [
            kept_service(kept_node(each, before.get(each.key)), before.get(each.key))
            for each in self._wanted.values()
            if each.host == host
        ]
        return plan([_as_installed(each, report["installed"]) for each in wanted], running)

    def _daemons_of(self, text: str) -> Daemons | None:
        """Return the daemons of every host of a file; None if this version cannot read it."""
        if text not in self._rendered:
            try:
                topology = parse_topology(text)
            except InvalidTopology:
                self._rendered[text] = None
            else:
                rendered = render(topology, self._state, topology_file=self._file)
                self._rendered[text] = {each.key: each for each in rendered.daemons}
        return self._rendered[text]


def _as_installed(daemon: Daemon, version: str) -> Daemon:
    """Return the daemon as `up` of a host with this version of our package starts it."""
    return daemon if not daemon.version else replace(daemon, version=version)
