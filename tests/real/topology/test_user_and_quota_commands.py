"""`heliograph user` and `heliograph quota` on a real broker of ours."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.admin_scenario import Commands
from tests.support.cluster import running_broker

pytestmark = pytest.mark.real

PASSWORD = "a-password-nobody-prints"


async def test_users_and_quotas(
    zookeeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALICE_PASSWORD", PASSWORD)
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    async with running_broker(zookeeper, tmp_path, config={}) as broker:
        on = Commands(broker.bootstrap)
        await asyncio.to_thread(users, on, str(tmp_path / "password"))
        await asyncio.to_thread(quotas, on)


def users(on: Commands, file: str) -> None:
    assert on.lines("user", "list") == [["there", "are", "none"]]
    create = ("user", "create", "alice", "--password-file", file)
    (planned,) = on.json(*create, "--dry-run")["changes"]
    assert (planned["state"], planned["detail"]) == ("planned", "SCRAM-SHA-512")
    assert on.json("user", "list") == {"users": []}
    assert on.lines(*create) == [["done:", "create", "user", "alice:", "SCRAM-SHA-512"]]
    assert "user alice has SCRAM-SHA-512; `heliograph user alter`" in on.refusal(*create)
    on.json("user", "create", "alice", "--mechanism", "SCRAM-SHA-256", "--password-env", VARIABLE)
    assert on.json("user", "list")["users"] == [
        {"user": "alice", "mechanism": each, "iterations": 4096}
        for each in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    ]
    assert on.lines("user", "list")[1:] == [
        ["alice", "SCRAM-SHA-256", "4096"],
        ["alice", "SCRAM-SHA-512", "4096"],
    ]
    typed = on.run("user", "alter", "alice", stdin=f"{PASSWORD}-2\n")
    assert (typed.exit_code, len(typed.stdout.splitlines())) == (0, 2), typed.output
    assert PASSWORD not in typed.output
    planned = on.json("user", "alter", "alice", "--password-file", file, "--dry-run")["changes"]
    assert [each["state"] for each in planned] == ["planned"] * 2
    assert "no user bob" in on.refusal("user", "alter", "bob", "--password-file", file)
    both = ("--password-file", file, "--password-env", VARIABLE)
    assert "name one of" in on.refusal("user", "alter", "alice", *both, code=2)
    assert "one line that is not empty" in on.refusal("user", "alter", "alice", code=2)
    missing = on.refusal("user", "alter", "alice", "--password-env", "NO_SUCH", code=2)
    assert "NO_SUCH is not set" in missing
    delete = ("user", "delete", "alice")
    assert "with --yes" in on.refusal(*delete, code=2)
    assert on.lines(*delete, "--dry-run")[0][0] == "planned:"
    on.json(*delete, "--mechanism", "SCRAM-SHA-256", "--yes")
    wrong = on.refusal(*delete, "--mechanism", "SCRAM-SHA-256", "--yes")
    assert "user alice has no SCRAM-SHA-256; it has SCRAM-SHA-512" in wrong
    on.json(*delete, "--yes")
    assert on.lines(*delete, "--yes") == [["nothing", "to", "change"]]


VARIABLE = "ALICE_PASSWORD"


def quotas(on: Commands) -> None:
    def listed(*words: str) -> list[tuple[Any, ...]]:
        rows = on.json("quota", "list", *words)["quotas"]
        return [
            ([(e["type"], e["name"]) for e in row["entity"]], row["quota"], row["value"])
            for row in rows
        ]

    assert on.lines("quota", "list") == [["there", "are", "none"]]
    both = ("--user", "alice", "--client-id", "loader")
    rate = "producer_byte_rate=1048576"
    assert on.json("quota", "set", rate, *both, "--dry-run")["changes"][0]["state"] == "planned"
    assert listed() == []
    on.json("quota", "set", rate, "request_percentage=12.5", *both)
    on.json("quota", "set", "consumer_byte_rate=5", "--default-user")
    on.json("quota", "set", "connection_creation_rate=7", "--ip", "10.0.0.1")
    on.json("quota", "set", "connection_creation_rate=9", "--default-ip")
    alice = [("user", "alice"), ("client-id", "loader")]
    assert listed("--user", "alice") == [
        (alice, "producer_byte_rate", 1048576.0),
        (alice, "request_percentage", 12.5),
    ]
    assert listed("--default-user") == [([("user", None)], "consumer_byte_rate", 5.0)]
    assert len(listed()) == 5
    line = ["user", "alice,", "client-id", "loader", "producer_byte_rate", "1048576"]
    assert line in on.lines("quota", "list")
    assert ["ip", "(default)", "connection_creation_rate", "9"] in on.lines("quota", "list")
    assert on.lines("quota", "set", rate, *both) == [["nothing", "to", "change"]]
    (changed,) = on.json("quota", "set", "producer_byte_rate=2097152", *both)["changes"]
    assert changed["detail"] == "producer_byte_rate 2097152, before 1048576"
    for words, problem in (
        (("set", "producer_byte_rat=1", "--user", "a"), "did you mean 'producer_byte_rate'?"),
        (("set", "producer_byte_rate=1", "--ip", "10.0.0.1"), "no quota 'producer_byte_rate'"),
        (("set", "producer_byte_rate=0", "--user", "a"), "a number greater than 0, not '0'"),
        (("set", "producer_byte_rate", "--user", "a"), "is not NAME=VALUE"),
        (("set", rate), "name whose quotas"),
        (("set", rate, "--user", "a", "--default-user"), "one of --user and --default-user"),
        (("set", "connection_creation_rate=1", "--ip", "1.1.1.1", "--user", "a"), "nothing else"),
        (("remove", "producer_byte_rate", *both), "with --yes"),
    ):
        assert problem in on.refusal("quota", *words, code=2), words
    fraction = ("quota", "set", "producer_byte_rate=1.5", "--user", "a")
    for words in (fraction, (*fraction, "--dry-run")):
        (refused,) = on.json(*words, code=1)["changes"]
        assert (refused["state"], refused["error"]) == ("refused", "INVALID_REQUEST")
        assert "cannot be a fractional value" in refused["reason"]
    address = on.json("quota", "set", "connection_creation_rate=1", "--ip", "a.b", code=1)
    assert "not a valid IP address" in address["changes"][0]["reason"]
    on.json("quota", "remove", "producer_byte_rate", *both, "--yes")
    assert listed("--user", "alice") == [(alice, "request_percentage", 12.5)]
    on.json("quota", "remove", *both, "--yes")
    assert listed("--user", "alice") == []
    assert on.lines("quota", "remove", *both, "--yes") == [["nothing", "to", "change"]]
