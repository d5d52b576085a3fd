"""The life of a deployment of ten hosts, by the commands that an operator has."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests.ten_hosts.clusters import read_log, replicas_by_broker
from tests.ten_hosts.conditions import (
    Say,
    Wrong,
    not_read,
    not_well,
    still_in_sync,
    too_few,
    wait,
)
from tests.ten_hosts.host import Call, Host
from tests.ten_hosts.judging import judge
from tests.ten_hosts.layout import (
    AGGREGATE,
    DATACENTERS,
    FIRST_HOSTS,
    LOST_HOST,
    NEW_HOST,
    PARTITIONS,
    SUCCESSOR,
    TOPIC,
    Layout,
)
from tests.ten_hosts.load import BOARDS, DESK, Load
from tests.ten_hosts.network import Network
from tests.ten_hosts.report import Result, Step

VERSIONS: Final = ("1.0", "2.0")
AT_ONCE: Final = 3
"""Hosts that apply the file at the same time, where their order does not matter."""
CUT_HOST: Final = 2
"""A broker of ewr, and a node of its ensemble, which is that of the aggregate as well."""
KILLED_HOST: Final = 10
"""A broker of lga and one of the aggregate, a ZooKeeper node, a mirror worker."""
STEPS: Final = ("grow", "cut", "kill", "replace", "upgrade")
"""What may be left out."""


class Life:
    """One deployment, from the first `up` to the count of its records."""

    def __init__(
        self,
        network: Network,
        directory: Path,
        result: Result,
        say: Say,
        *,
        seed: int,
        rate: float,
        records: int,
        steps: Collection[str] = STEPS,
    ) -> None:
        """`records` must be acknowledged in each datacenter during each of the `steps`."""
        self._network = network
        self._directory = directory
        self._result = result
        self._say = say
        self._random = random.Random(seed)
        self._rate = rate
        self._records = records
        self._steps = steps
        self._layout = Layout(network.addresses, network.ports)
        self._hosts = {number: self._make_host(number) for number in FIRST_HOSTS}
        self._version = VERSIONS[0]
        self._load: Load | None = None
        self._step = Step("")

    def live(self) -> None:
        """Play every step. What is wrong is in the result; raises what ends it early."""
        with self._in_step("deploy ten hosts"):
            self._deploy()
        with self._in_step("start the load"):
            self._start_load()
        for key, name, play in (
            ("grow", "grow by a host", self._grow),
            ("cut", "cut a host off", self._cut),
            ("kill", "power loss of a host", self._kill),
            ("replace", "lose a host for good, and replace it", self._replace),
            ("upgrade", "upgrade all hosts", self._upgrade),
        ):
            if key in self._steps:
                with self._in_step(name):
                    play()
        with self._in_step("count"):
            self._count()
        with self._in_step("take down"):
            self._take_down()
        self._result.is_complete = True

    def end(self) -> None:
        """Leave no process behind, however the life ended."""
        for host in self._hosts.values():
            host.kill()

    # --- steps ---

    def _deploy(self) -> None:
        for host in self._hosts.values():
            self._prepare(host)
        self._up_side_by_side(self._shuffled())
        self._wait_until_well()

    def _start_load(self) -> None:
        first = self._hosts[1]
        for name in DATACENTERS:
            first.run("topic", "create", TOPIC, "--cluster", name)
        self._load = Load(self._layout, self._rate)
        self._load.start()
        self._advance()

    def _grow(self) -> None:
        self._layout = self._layout.grown()
        host = self._hosts[NEW_HOST] = self._make_host(NEW_HOST)
        self._prepare(host)
        plan = self._hosts[1]
        self._copy_file()
        steps = plan.run("plan", "shop.yaml", "--host", plan.address)["steps"]
        self._expect(not steps, f"a host that is added changes {plan.name}: {steps}")
        self._up(plan)
        self._up(host)
        self._up_side_by_side([each for each in self._shuffled() if each not in (plan, host)])
        self._wait_until_well()
        plan.run("rebalance", "ewr")
        brokers = self._layout.brokers("ewr")
        found = replicas_by_broker(self._layout.bootstrap("ewr"), TOPIC)
        self._say(f"replicas of {TOPIC} in ewr by broker: {found}")
        self._expect(all(found.get(each) for each in brokers), f"a broker has nothing: {found}")
        self._wait_until_well()
        self._advance()

    def _upgrade(self) -> None:
        self._version = VERSIONS[1]
        for host in self._hosts.values():
            host.install(self._version)
        first = self._hosts[1]
        document = first.run("upgrade", allowed=(0, 4))
        self._expect(document["state"] == "done", f"the upgrade is {document}")
        self._wait_until_well()
        versions = self._versions()
        self._expect(versions == {VERSIONS[1]}, f"after the upgrade versions are {versions}")
        first.run("upgrade", "--finalize")
        self._advance()

    def _cut(self) -> None:
        host = self._hosts[CUT_HOST]
        self._network.cut(CUT_HOST)
        try:
            self._say(f"{host.name} is cut off")
            self._wait_until_away(CUT_HOST)
            self._advance()
        finally:
            self._network.heal(CUT_HOST)
        self._say(f"{host.name} is back")
        self._wait_until_well()
        self._advance()

    def _kill(self) -> None:
        host = self._hosts[KILLED_HOST]
        self._say(f"{host.kill()} processes of {host.name} are killed")
        self._wait_until_away(KILLED_HOST)
        self._advance()
        self._up(host)
        self._wait_until_well()
        self._advance()

    def _replace(self) -> None:
        lost = self._hosts.pop(LOST_HOST)
        lost.lose()
        self._network.cut(LOST_HOST)
        self._say(f"{lost.name} is lost with its disks")
        self._wait_until_away(LOST_HOST)
        self._advance()
        self._layout = self._layout.replaced()
        host = self._hosts[SUCCESSOR] = self._make_host(SUCCESSOR)
        self._prepare(host)
        self._copy_file()
        first = self._hosts[1]
        for each in (first, host, *(x for x in self._shuffled() if x not in (first, host))):
            self._up(each)
        self._wait_until_well()
        self._advance()

    def _count(self) -> None:
        load = self._loaded()
        load.stop_producing()
        self._wait_until_read()
        load.stop_consuming()
        figures = self._result.figures
        copies = 0
        for name, ledger in load.ledgers.items():
            source = read_log(self._layout.bootstrap(name), TOPIC, range(PARTITIONS))
            aggregate = self._layout.bootstrap(AGGREGATE)
            copy = read_log(aggregate, f"{name}.{TOPIC}", range(PARTITIONS))
            self._result.findings += judge(name, ledger, source, copy, (BOARDS, DESK))
            copies += sum(map(len, copy.values()))
            figures[f"{name}: sent"] = len(ledger.sent)
            figures[f"{name}: acknowledged"] = len(ledger.acknowledged)
            figures[f"{name}: outcome unknown"] = len(ledger.unknown)
            figures[f"{name}: in the source log"] = sum(map(len, source.values()))
            figures[f"{name}: in the aggregate"] = sum(map(len, copy.values()))
        self._audit(copies)
        for host in self._hosts.values():
            status = host.status()
            is_well = status["state"] == "running" and not status["problems"]
            self._expect(is_well, f"{host.name} is {status['state']}: {status['problems']}")

    def _audit(self, records: int) -> None:
        """Both audits of the product must find as many records complete, and no fault."""
        first = self._hosts[1]

        def waits() -> str:
            links = first.run("audit", allowed=(0, 4), told=False)["links"]
            waiting = sum(each["batches_waiting"] for link in links for each in link["partitions"])
            complete = verdicts(links, "partitions")["COMPLETE"]
            return f"{complete} of {records}, {waiting} batches wait" if complete < records else ""

        self._wait("the mirrors have audited their copies", waits)
        for words, rows in ((("audit",), "partitions"), (("audit", "--records"), "records_read")):
            links = first.run(*words, allowed=(0, 4))["links"]
            found = verdicts(links, rows)
            self._result.figures[f"heliograph {' '.join(words)}"] = ", ".join(
                f"{name} {count:,}" for name, count in found.items()
            )
            is_well = all(link["is_well"] for link in links) and found == {"COMPLETE": records}
            self._expect(is_well, f"{' '.join(words)} of {records} records: {dict(found)}")

    def _take_down(self) -> None:
        first = self._hosts[1]
        for host in self._shuffled():
            if host is not first:
                first.run("down", "--other-host", host.address, "--yes")
        first.run("down")
        for host in self._hosts.values():
            self._expect(not host.kill(), f"`down` left processes on {host.name}")

    # --- what steps have in common ---

    @contextlib.contextmanager
    def _in_step(self, name: str) -> Iterator[None]:
        self._step = Step(name)
        self._result.steps.append(self._step)
        self._say(f"--- {name}")
        begun_s, before = time.monotonic(), self._acknowledged()
        if self._load is not None:
            self._load.silences()
        try:
            yield
        finally:
            self._step.seconds = time.monotonic() - begun_s
            self._step.acknowledged = self._acknowledged() - before
            if self._load is not None and self._load.is_producing:
                self._step.longest_silence_s = self._load.silences()

    def _make_host(self, number: int) -> Host:
        return Host(number, self._network, self._directory / f"host-{number}", self._hear)

    def _hear(self, call: Call) -> None:
        self._step.calls.append(call)
        self._say(f"{call.host}$ heliograph {call.words}  ({call.seconds:.0f} s)")

    def _prepare(self, host: Host) -> None:
        host.write_file(self._layout.text())
        host.install(self._version)

    def _copy_file(self) -> None:
        for host in self._hosts.values():
            host.write_file(self._layout.text())

    def _up_side_by_side(self, hosts: Sequence[Host]) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in pool.map(self._up, hosts):
                pass

    def _up(self, host: Host) -> None:
        document = host.up()
        steps = [f"{step['action']} {step['label']}" for step in document["steps"]]
        self._say(f"{host.name} is {document['state']}: {', '.join(steps) or 'nothing to do'}")

    def _shuffled(self) -> list[Host]:
        hosts = list(self._hosts.values())
        self._random.shuffle(hosts)
        return hosts

    def _loaded(self) -> Load:
        assert self._load is not None
        return self._load

    def _acknowledged(self) -> int:
        return 0 if self._load is None else sum(self._load.counts().values())

    def _advance(self) -> None:
        """Wait until each datacenter has acknowledged more records, and groups have got them."""
        load = self._loaded()
        before = load.counts()
        self._wait("records are acknowledged", lambda: too_few(load, before, self._records))
        self._wait_until_read()

    def _wait_until_read(self) -> None:
        load = self._loaded()
        wanted = load.told()
        self._wait("consumers have got them", lambda: not_read(load, wanted))

    def _wait_until_away(self, number: int) -> None:
        self._wait("its replicas are out of sync", lambda: still_in_sync(self._layout, number))

    def _wait_until_well(self) -> None:
        self._wait("all hosts are well", lambda: not_well(self._hosts, self._layout))

    def _wait(self, what: str, wrong: Wrong) -> None:
        wait(self._say, what, wrong)

    def _versions(self) -> set[str]:
        """The versions that processes run, as two hosts are told of all others."""
        documents = [self._hosts[number].status() for number in (1, 2)]
        others = [each for document in documents for each in document["hosts"]]
        return {row["version"] for each in others for row in each["daemons"] if row["version"]}

    def _expect(self, is_so: bool, otherwise: str) -> None:
        if not is_so:
            self._say(f"FINDING: {otherwise}")
            self._result.findings.append(f"{self._step.name}: {otherwise}")


def verdicts(links: Sequence[dict[str, Any]], rows: str) -> Counter[str]:
    """Return the records of all links by the verdict of the audit."""
    found: Counter[str] = Counter()
    for link in links:
        for row in link[rows]:
            found.update(row["records"])
    return found
