"""What `up` does by the state of its topology file: before it changes anything, and afterwards."""

from __future__ import annotations

from dataclasses import dataclass, replace

from topology.deployment.deployment import Deployment
from topology.deployment.state_dir import StateDir
from topology.operate.preflight import check_owner
from topology.problems import DeployError
from topology.shared_file.agreement import UNKNOWN, FileState, agree, allowed_state
from topology.shared_file.seen_notes import write_seen


@dataclass(slots=True)
class FileAgreement:
    """The agreement of one `up` with the other hosts."""

    deployment: Deployment
    state: StateDir
    replaces: int | None = None
    """Number of the generation that the file replaces, by the word of the operator."""
    found: FileState | None = None
    """How the file stands; None if no other host has it."""

    def before(self) -> Deployment:
        """Compare the file where ZooKeeper answers; return the deployment to apply.

        A file that is behind changes no users, ACLs and quotas: the newest may have others.
        Raises as `allowed_state`.
        """
        check_owner(self.deployment, self.state)
        self.found = allowed_state(self.deployment, self.state, replaces=self.replaces)
        if self.found is None or self.found.state != "behind":
            return self.deployment
        clusters = tuple(replace(each, rights=None) for each in self.deployment.clusters)
        return replace(self.deployment, clusters=clusters)

    @property
    def may_delete_rights(self) -> bool:
        """Whether users, ACLs and quotas that the file does not have may be deleted."""
        return self.found is None or self.found.state not in (UNKNOWN, "behind")

    def claim(self) -> None:
        """Make the file the newest generation, before anything changes. Raises as `agree`."""
        if self.found is None or self.found.is_settled or self.found.state == "behind":
            return
        if self.found.state == UNKNOWN:
            # This host may go on by itself once there is a ZooKeeper, without another `up`.
            write_seen(self.state, replace(self.found.seen, applied=self.found.text))
            return
        self.found = agree(self.deployment, self.state, replaces=self.replaces)
        if self.found is not None and self.found.state == "behind":
            raise DeployError(
                "another host wrote the topology meanwhile; nothing was changed",
                ["`heliograph plan` shows it"],
            )

    def after(self) -> None:
        """Agree where ZooKeeper did not answer before. Raises as `agree`."""
        if self.found is not None and self.found.silent:
            replaces = self.replaces if self.found.state == UNKNOWN else None
            self.found = agree(self.deployment, self.state, replaces=replaces)
