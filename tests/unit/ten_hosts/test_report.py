"""The result of a campaign on ten hosts is well only if all of it was played and nothing found."""

from __future__ import annotations

from tests.ten_hosts.host import Call
from tests.ten_hosts.report import Result, Step, as_json, as_markdown


def a_result() -> Result:
    calls = [Call("host-1", "up shop.yaml", 2.0, 0), Call("host-2", "up shop.yaml", 3.0, 4)]
    step = Step("grow by a host", 61.2, 1_500, {"ewr": 0.4}, calls)
    return Result({"seed": 7}, [step], {"ewr: acknowledged": 1_500})


def is_well(result: Result) -> bool:
    found: bool = as_json(result)["is_well"]
    return found


def test_a_result_is_well_at_its_end_and_without_findings() -> None:
    result = a_result()
    assert not is_well(result)
    assert "did not come to its end" in as_markdown(result)
    result.is_complete = True
    assert is_well(result)
    assert "No findings." in as_markdown(result)
    result.findings.append("ewr: 1 records lost: ewr-1")
    assert not is_well(result)
    assert "- ewr: 1 records lost: ewr-1" in as_markdown(result)


def test_every_command_is_in_the_result() -> None:
    document, text = as_json(a_result()), as_markdown(a_result())
    commands = document["steps"][0]["commands"]
    assert [(each["host"], each["exit_code"]) for each in commands] == [
        ("host-1", 0),
        ("host-2", 4),
    ]
    assert commands[0]["command"] == "heliograph up shop.yaml"
    assert "| grow by a host | 61 | 1,500 | ewr 0.4 | up x 2 |" in text
