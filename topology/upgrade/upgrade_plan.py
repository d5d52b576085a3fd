"""The plan of an upgrade: the wanted version, the order of the hosts, how far each is. Pure.

State of a host:

    waiting   its turn has not come, or it waits for something that `reason` says
    in_turn   it restarts its processes with the wanted version
    done      all its processes run with the wanted version, and everything was in sync after that
    failed    it stopped on trouble, which `reason` says

State of the plan, the first that fits:

    final     the former version is given up
    done      every host is done
    failed    a host has failed; no other host begins
    stopped   an operator has stopped it; no host begins
    running   hosts take their turns

Guarantees: hosts are done in the order of the plan. No host begins while another one is in its
turn or has failed, or after a stop before the operator continues. A host that was killed in its
turn continues it. Only a plan in which every host is done becomes final, and none that is final
goes back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

FORMAT_VERSION: Final = 1
"""Version of the znode. Supervisors of the version before read what a newer command writes, so new
fields are optional, and a reader leaves out those that it does not know."""

HostState = Literal["waiting", "in_turn", "done", "failed"]
PlanState = Literal["final", "done", "failed", "stopped", "running"]


class NotNow(Exception):
    """The plan does not allow this step; the message says why, and what would help."""


class NotAPlan(Exception):
    """The content of the znode is not what this version writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTurn:
    """How far a host is."""

    name: str
    """The host as the topology names it."""
    state: HostState = "waiting"
    reason: str = ""
    """Why it has failed or waits; empty if there is nothing to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradePlan:
    """One upgrade, or the way back from it."""

    number: int
    """It counts from 1 in each deployment."""
    wanted: str
    """Version that every process is to run."""
    former: str
    """Version before; empty if it is unknown."""
    hosts: tuple[HostTurn, ...]
    """In the order of their turns."""
    timeout_s: float
    """Seconds that each process may take, and before that everything to be in sync."""
    begun_by: str
    begun_at: str
    """ISO 8601, by the clock of that host."""
    is_back: bool = False
    is_stopped: bool = False
    is_final: bool = False

    @property
    def state(self) -> PlanState:
        states = {each.state for each in self.hosts}
        if self.is_final:
            return "final"
        if states <= {"done"}:
            return "done"
        if "failed" in states:
            return "failed"
        return "stopped" if self.is_stopped else "running"

    @property
    def is_settled(self) -> bool:
        """Whether another upgrade may begin: nothing is under way and nothing could go back."""
        return self.is_final or (self.is_back and self.state == "done")

    @property
    def has_begun(self) -> bool:
        """Whether a host is in its turn, or was when it was killed."""
        return any(each.state == "in_turn" for each in self.hosts)

    @property
    def next_host(self) -> HostTurn | None:
        """Return the first host that is not done; None if all are."""
        return next((each for each in self.hosts if each.state != "done"), None)

    def is_turn_of(self, own: Collection[str]) -> bool:
        """Return whether it is the turn of whoever runs these hosts, or still is after a kill."""
        found = self.next_host
        return self.state == "running" and found is not None and found.name in own

    def _with(
        self, own: Collection[str], only: tuple[HostState, ...], state: HostState, reason: str
    ) -> UpgradePlan:
        hosts = tuple(
            replace(each, state=state, reason=reason)
            if each.name in own and each.state in only
            else each
            for each in self.hosts
        )
        return replace(self, hosts=hosts)


Change = Callable[["UpgradePlan | None"], UpgradePlan]
"""Returns the next plan from the stored one. Raises NotNow."""


def begin(
    wanted: str,
    former: str,
    hosts: Sequence[str],
    *,
    timeout_s: float,
    by: str,
    at: str,
) -> Change:
    """Begin an upgrade, or continue the one to the same version. Failed hosts get another turn."""

    def change(plan: UpgradePlan | None) -> UpgradePlan:
        if plan is not None and plan.wanted == wanted and not plan.is_settled:
            return _continued(plan, timeout_s)
        known = former
        if plan is not None:
            returns = plan.is_back and plan.former == wanted
            if not plan.is_settled and not returns:
                raise NotNow(_other_under_way(plan, wanted))
            if plan.wanted != wanted:
                known = known or plan.wanted
        return UpgradePlan(
            number=1 if plan is None else plan.number + 1,
            wanted=wanted,
            former=known,
            hosts=tuple(HostTurn(name=name) for name in hosts),
            timeout_s=timeout_s,
            begun_by=by,
            begun_at=at,
        )

    return change


def _continued(plan: UpgradePlan, timeout_s: float) -> UpgradePlan:
    everywhere = [each.name for each in plan.hosts]
    found = plan._with(everywhere, ("failed",), "waiting", "")
    return replace(found, is_stopped=False, timeout_s=timeout_s)


def _other_under_way(plan: UpgradePlan, wanted: str) -> str:
    if plan.former == wanted:
        return (
            f"the upgrade from {wanted} to {plan.wanted} is {plan.state};"
            " `heliograph upgrade --back` goes back"
        )
    if plan.is_back:
        return f"the way back to {plan.wanted} is {plan.state}; continue it with that version"
    if plan.state == "done":
        return (
            f"the upgrade to {plan.wanted} is not final, so going back by two versions would be"
            f" possible; `heliograph upgrade --finalize` with {plan.wanted} makes it final"
        )
    return (
        f"the upgrade to {plan.wanted} is {plan.state}; continue it with that version,"
        " or go back by `heliograph upgrade --back`"
    )


def take(own: Collection[str]) -> Change:
    """Take the turn of these hosts, or continue it after a kill."""

    def change(plan: UpgradePlan | None) -> UpgradePlan:
        if plan is None or not plan.is_turn_of(own):
            raise NotNow("it is not the turn of this host")
        return plan._with(own, ("waiting", "in_turn"), "in_turn", "")

    return change


def end(own: Collection[str], number: int) -> Change:
    """Record that the turn ended well."""
    return lambda plan: _same(plan, number)._with(own, ("in_turn",), "done", "")


def fail(own: Collection[str], number: int, reason: str) -> Change:
    """Record that the turn ended in trouble."""
    return lambda plan: _same(plan, number)._with(own, ("in_turn",), "failed", reason)


def give_back(own: Collection[str], number: int, reason: str) -> Change:
    """Record that the turn ended early, or could not begin, and comes again."""
    return lambda plan: _same(plan, number)._with(own, ("waiting", "in_turn"), "waiting", reason)


def _same(plan: UpgradePlan | None, number: int) -> UpgradePlan:
    if plan is None or plan.number != number:
        raise NotNow(f"plan {number} was replaced meanwhile")
    return plan


def stop(plan: UpgradePlan | None) -> UpgradePlan:
    """Let no host begin, and the one in its turn end after the process at hand."""
    if plan is None or plan.state in ("done", "final"):
        raise NotNow("no upgrade is under way")
    return replace(plan, is_stopped=True)


def back(*, timeout_s: float, by: str, at: str) -> Change:
    """Go back to the former version, the last host first; continue if that is under way."""

    def change(plan: UpgradePlan | None) -> UpgradePlan:
        if plan is None:
            raise NotNow("no upgrade was begun, so there is nothing to go back from")
        if plan.is_final:
            raise NotNow(
                f"the upgrade to {plan.wanted} is final; its data may be in formats that"
                f" {plan.former or 'the former version'} does not read"
            )
        if plan.is_back:
            return _continued(plan, timeout_s)
        if not plan.former:
            raise NotNow(
                "the former version is unknown, because nothing ran here with it when the upgrade"
                " began; install it and run `heliograph up` on each host"
            )
        return UpgradePlan(
            number=plan.number + 1,
            wanted=plan.former,
            former=plan.wanted,
            hosts=tuple(HostTurn(name=each.name) for each in reversed(plan.hosts)),
            timeout_s=timeout_s,
            begun_by=by,
            begun_at=at,
            is_back=True,
        )

    return change


def finalize(installed: str) -> Change:
    """Give the former version up. `installed` is the version whose formats are to be written."""

    def change(plan: UpgradePlan | None) -> UpgradePlan:
        if plan is None:
            raise NotNow("no upgrade was begun")
        if plan.is_back:
            raise NotNow(
                f"this deployment went back to {plan.wanted}; there is nothing to finalize"
            )
        if plan.state not in ("done", "final"):
            raise NotNow(f"the upgrade to {plan.wanted} is {plan.state}, not done")
        if plan.wanted != installed:
            raise NotNow(f"version {installed} is installed here, not {plan.wanted}")
        return replace(plan, is_final=True)

    return change


def ordered(hosts: Iterable[str], first: Sequence[str]) -> list[str]:
    """Return each host once: those of `first`, then the others as they come. Raises NotNow."""
    every = list(dict.fromkeys(hosts))
    if unknown := [name for name in first if name not in every]:
        raise NotNow(f"no host {', '.join(unknown)}; there are: {', '.join(every)}")
    return list(dict.fromkeys([*first, *every]))


def encode_plan(plan: UpgradePlan) -> bytes:
    """Return the JSON that `decode_plan` reads."""
    return json.dumps({"version": FORMAT_VERSION, **asdict(plan)}, ensure_ascii=False).encode()


def decode_plan(content: bytes) -> UpgradePlan:
    """Read the content of the znode. Raises NotAPlan."""
    try:
        document: dict[str, Any] = json.loads(content)
        if document["version"] != FORMAT_VERSION:
            raise ValueError(f"format {document['version']}, not {FORMAT_VERSION}")
        hosts = tuple(
            HostTurn(name=each["name"], state=_state(each["state"]), reason=each.get("reason", ""))
            for each in document["hosts"]
        )
        return UpgradePlan(
            number=int(document["number"]),
            wanted=str(document["wanted"]),
            former=str(document["former"]),
            hosts=hosts,
            timeout_s=float(document["timeout_s"]),
            begun_by=str(document["begun_by"]),
            begun_at=str(document["begun_at"]),
            is_back=bool(document.get("is_back")),
            is_stopped=bool(document.get("is_stopped")),
            is_final=bool(document.get("is_final")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotAPlan(f"not a plan of an upgrade: {error!r}") from error


def _state(text: object) -> HostState:
    match text:
        case "waiting" | "in_turn" | "done" | "failed":
            return text
    raise ValueError(f"no state {text!r}")
