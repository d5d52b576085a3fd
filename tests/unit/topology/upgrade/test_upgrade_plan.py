"""What an operator is told when a plan does not allow a step, and what older versions read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from topology.upgrade.show import upgrade_document, upgrade_lines
from topology.upgrade.upgrade_plan import (
    Change,
    HostState,
    HostTurn,
    NotAPlan,
    NotNow,
    UpgradePlan,
    back,
    begin,
    decode_plan,
    encode_plan,
    finalize,
    give_back,
    ordered,
    stop,
    take,
)


def plan(*states: HostState, is_back: bool = False) -> UpgradePlan:
    wanted, former = ("1.0", "2.0") if is_back else ("2.0", "1.0")
    return UpgradePlan(
        number=1,
        wanted=wanted,
        former=former,
        hosts=tuple(HostTurn(name=f"h{i}", state=each) for i, each in enumerate(states)),
        timeout_s=120.0,
        begun_by="h0",
        begun_at="2026-01-01T00:00:00+00:00",
        is_back=is_back,
    )


def to(wanted: str, hosts: Sequence[str] = ("h0", "h1")) -> Change:
    return begin(wanted, "", hosts, timeout_s=60.0, by="h1", at="now")


TO_BACK = back(timeout_s=60.0, by="h1", at="now")
DONE = plan("done", "done")


@pytest.mark.parametrize(
    ("change", "before", "says"),
    [
        (to("3.0"), DONE, "is not final"),
        (to("3.0"), plan("done", "failed"), "is failed; continue it with that version"),
        (to("1.0"), plan("done", "waiting"), "`heliograph upgrade --back` goes back"),
        (to("3.0"), plan("done", "waiting", is_back=True), "the way back to 1.0 is running"),
        (TO_BACK, None, "nothing to go back from"),
        (TO_BACK, replace(DONE, is_final=True), "the upgrade to 2.0 is final"),
        (TO_BACK, replace(DONE, former=""), "the former version is unknown"),
        (finalize("2.0"), None, "no upgrade was begun"),
        (finalize("2.0"), plan("done", "in_turn"), "is running, not done"),
        (finalize("1.0"), DONE, "version 1.0 is installed here, not 2.0"),
        (finalize("1.0"), plan("done", is_back=True), "there is nothing to finalize"),
        (stop, None, "no upgrade is under way"),
        (stop, DONE, "no upgrade is under way"),
        (take({"h1"}), plan("in_turn", "waiting"), "not the turn of this host"),
        (take({"h1"}), plan("failed", "waiting"), "not the turn of this host"),
        (give_back({"h0"}, 7, "late"), plan("in_turn"), "plan 7 was replaced"),
    ],
)
def test_refusals(change: Change, before: UpgradePlan | None, says: str) -> None:
    with pytest.raises(NotNow, match=says):
        change(before)


def test_a_failed_host_gets_another_turn_when_the_operator_continues() -> None:
    continued = to("2.0")(plan("done", "failed"))
    assert [each.state for each in continued.hosts] == ["done", "waiting"]
    assert (continued.number, continued.state, continued.timeout_s) == (1, "running", 60.0)
    assert continued.is_turn_of({"h1"})


def test_after_a_stop_no_host_begins_until_the_operator_continues() -> None:
    stopped = stop(plan("in_turn", "waiting"))
    assert (stopped.state, stopped.is_turn_of({"h0"})) == ("stopped", False)
    assert to("2.0")(stopped).is_turn_of({"h0"})


def test_the_way_back_begins_with_the_last_host_and_may_turn_round() -> None:
    way_back = TO_BACK(plan("done", "failed"))
    assert [each.name for each in way_back.hosts] == ["h1", "h0"]
    assert (way_back.number, way_back.wanted, way_back.former) == (2, "1.0", "2.0")
    assert TO_BACK(way_back).number == 2, "it continues"
    again = to("2.0")(way_back)
    assert (again.number, again.wanted, again.former) == (3, "2.0", "1.0")
    done = plan("done", "done", is_back=True)
    assert to("3.0")(done).former == "1.0"


def test_a_datacenter_takes_the_turn_of_all_its_hosts() -> None:
    taken = take({"h0", "h2"})(plan("waiting", "waiting", "waiting"))
    assert [each.state for each in taken.hosts] == ["in_turn", "waiting", "in_turn"]


def test_the_order_names_hosts_of_the_file() -> None:
    assert ordered(["a", "b", "a", "c"], ["c"]) == ["c", "a", "b"]
    with pytest.raises(NotNow, match="no host d; there are: a, b"):
        ordered(["a", "b"], ["d"])


def test_fields_of_a_newer_version_are_left_out() -> None:
    document = json.loads(encode_plan(DONE))
    document["later"] = 1
    document["hosts"][0]["later"] = 1
    assert decode_plan(json.dumps(document).encode()) == DONE


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", encode_plan(DONE).replace(b'"done"', b'"later"', 1)]
)
def test_other_contents_are_no_plan(content: bytes) -> None:
    with pytest.raises(NotAPlan):
        decode_plan(content)


@pytest.mark.parametrize(
    ("shown", "turn", "says"),
    [
        (None, None, ["no upgrade was begun; version 2.0 is installed here"]),
        (DONE, None, ["upgrade from 1.0 to 2.0 is done", "--finalize` gives", "install 1.0 on"]),
        (plan("failed"), None, ["h0: failed", "`heliograph upgrade` continues", "install 1.0 on"]),
        (stop(plan("waiting")), None, ["is stopped", "`heliograph upgrade` continues"]),
        (plan("failed", is_back=True), None, ["way back", "`heliograph upgrade --back` continues"]),
        (plan("done", "waiting"), None, ["it is the turn of h1", "h1: waiting"]),
        (plan("done", "in_turn"), "h1", ["h1: in turn"]),
    ],
)
def test_people_are_told_how_to_go_on_or_back(
    shown: UpgradePlan | None, turn: str | None, says: list[str]
) -> None:
    document = upgrade_document("d", shown, turn, installed="2.0", levels={"a": 1, "b": None})
    lines = "\n".join(upgrade_lines(document))
    assert all(each in lines for each in says), lines
    assert json.loads(json.dumps(document))["state"] == ("none" if shown is None else shown.state)
