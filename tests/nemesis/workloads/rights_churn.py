"""Rights, users and passwords that come and go, and clients that use them on every broker."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from local_cluster.client.admin.acls import create_acls, delete_acls
from local_cluster.client.admin.scram_users import ScramChange, alter_scram_users
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from local_cluster.wire.errors import KafkaError
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.rights import BOUND_SECONDS, Switch, Turn, check_switches
from tests.nemesis.cluster import WAIT_SECONDS_MAX
from tests.nemesis.workloads.right_holders import (
    MECHANISM,
    PARKED_FETCH,
    REQUEST_MS_MAX,
    TOPIC,
    OneTry,
    RightHolder,
    log_in,
    security_of,
    timed_batch,
)
from tests.nemesis.workloads.workload import Workload
from tests.support.producing import produce_once

ORDERS: Final = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
"""Each broker leads a partition, so that each one is produced to and fetched from."""
WRITE_PAUSE_SECONDS: Final = 0.1
LOGIN_PAUSE_SECONDS: Final = 0.1
HELD_SECONDS: Final = (0.2, 2.5)
"""How long a turn stays: some for less than the bound, so that turns follow each other fast."""
TURNS_MAX: Final = 20
"""Of one user. The next one is new, so that a history stays short."""
AGAIN_SECONDS: Final = 0.2


class UnknownOutcomeError(Exception):
    """A change has no answer. It may still come, so this user is given up."""


class RightsChurn(Workload):
    """One admin changes ACLs, another one users and passwords; each waits for its answer."""

    name: ClassVar = "rights-churn"
    title: ClassVar = "ACLs, users and passwords that change"
    progress_wanted: ClassVar = 1
    must_check: ClassVar = (
        "granted",
        "revoked",
        "accepted",
        "refused",
        "judged: produce",
        "judged: fetch",
        "judged: parked fetch",
        "held: request",
        "held: login",
        "replicas",
    )
    needs_users: ClassVar = True

    @property
    def topics(self) -> Sequence[NewTopic]:
        return [NewTopic(name=TOPIC, assignments=dict(enumerate(ORDERS)))]

    async def start(self) -> None:
        self._stop = asyncio.Event()
        self._switches: dict[str, Switch] = {}
        self._turns = {"rights": 0, "logins": 0}
        self._writers = [asyncio.create_task(self._write(each)) for each in range(len(ORDERS))]
        self._admins = [
            asyncio.create_task(self._again_and_again(self._change_rights)),
            asyncio.create_task(self._again_and_again(self._change_passwords)),
        ]

    @property
    def gone_on(self) -> Sequence[int]:
        return list(self._turns.values())

    async def stop(self) -> None:
        """With one user more of each kind, once every broker must have a live session again."""
        self._stop.set()
        await asyncio.gather(*self._admins)
        await asyncio.sleep(max(0.0, self.cluster.absences.settled_at() - time.monotonic()))
        # A parked fetch takes a while to begin, and with three turns one password replaces another.
        last = (partial(self._change_rights, turns=2), partial(self._change_passwords, turns=3))
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            await asyncio.gather(*(self._until_known(each) for each in last))
        for writer in self._writers:
            writer.cancel()
        await asyncio.gather(*self._writers, return_exceptions=True)

    async def check(self) -> Findings:
        # Kafka asks for rights when a fetch comes, not again when it is answered.
        unbound = (PARKED_FETCH,) if self.cluster.system == "kafka" else ()
        return check_switches(self._switches, self.cluster.absences.all(), unbound=unbound)

    # -- rights -------------------------------------------------------------------------------

    async def _change_rights(self, turns: int = TURNS_MAX) -> None:
        """Grant and revoke all rights of a new user, in turn."""
        user = f"alice-{len(self._switches)}"
        switch = self._switches[user] = Switch()
        password = await self._set_password(user, 0)
        acls = [
            Acl(
                ResourceType.TOPIC,
                TOPIC,
                PatternType.LITERAL,
                f"User:{user}",
                "*",
                operation,
                Permission.ALLOW,
            )
            for operation in (AclOperation.READ, AclOperation.WRITE)
        ]
        async with self._holders(user, password, switch):
            for turn in range(turns):
                change = create_acls if turn % 2 == 0 else delete_acls
                async with self._one_broker() as client:
                    began = time.monotonic()
                    try:
                        await _acknowledged(change(client, acls))
                    except UnknownOutcomeError:
                        switch.unknown_since = began
                        raise
                switch.turns.append(Turn(began, time.monotonic(), turn % 2 == 0))
                self._turns["rights"] += 1
                await self._hold(is_last=self._is_last(turns))
                if self._is_over(turns):
                    break

    @contextlib.asynccontextmanager
    async def _holders(self, user: str, password: Path, switch: Switch) -> AsyncIterator[None]:
        security = security_of(user, password)
        holders = [
            RightHolder(f"127.0.0.1:{port}", node, security, switch)
            for node, port in self.cluster.users_ports.items()
        ]
        for holder in holders:
            holder.start()
        try:
            yield
        finally:
            for holder in holders:
                await holder.stop()

    # -- users and passwords ------------------------------------------------------------------

    async def _change_passwords(self, turns: int = TURNS_MAX) -> None:
        """Create a user, change its password, delete it, and so on."""
        user = f"bob-{len(self._switches)}"
        tried: list[tuple[Path, Switch]] = []
        logins = [asyncio.create_task(self._log_in(user, node, tried)) for node in self._nodes]
        try:
            for turn in range(turns):
                if turn % 3 == 2:
                    began, acknowledged = await self._changed(user, None, tried)
                else:
                    fresh = Switch()
                    self._switches[f"{user} with password {turn}"] = fresh
                    password = self._password_file(user, turn)
                    began, acknowledged = await self._changed(user, password, tried)
                    fresh.turns.append(Turn(began, acknowledged, is_on=True))
                    tried[:] = [*tried[-1:], (password, fresh)]
                self._turns["logins"] += 1
                await self._hold(is_last=self._is_last(turns))
                if self._is_over(turns):
                    break
        finally:
            for login in logins:
                login.cancel()
            await asyncio.gather(*logins, return_exceptions=True)

    async def _changed(
        self, user: str, password: Path | None, tried: Sequence[tuple[Path, Switch]]
    ) -> tuple[float, float]:
        """Give the user a password, or delete it: the present password is turned off."""
        change = ScramChange(user, MECHANISM, password.read_text() if password else None)
        present = tried[-1][1] if tried and tried[-1][1].turns[-1].is_on else None
        async with self._one_broker() as client:
            began = time.monotonic()
            try:
                await _acknowledged(alter_scram_users(client, [change]))
            except UnknownOutcomeError:
                for _, switch in tried:
                    switch.unknown_since = began
                raise
        acknowledged = time.monotonic()
        if present is not None:
            present.turns.append(Turn(began, acknowledged, is_on=False))
        return began, acknowledged

    async def _log_in(self, user: str, node: int, tried: Sequence[tuple[Path, Switch]]) -> None:
        """With the present password and the one before, again and again."""
        while True:
            for password, switch in tuple(tried):
                port = self.cluster.users_ports[node]
                await log_in(port, node, security_of(user, password), switch)
            await asyncio.sleep(LOGIN_PAUSE_SECONDS)

    async def _set_password(self, user: str, number: int) -> Path:
        """Create the user. Raises UnknownOutcomeError."""
        password = self._password_file(user, number)
        change = ScramChange(user, MECHANISM, password.read_text())
        async with self._one_broker() as client:
            await _acknowledged(alter_scram_users(client, [change]))
        return password

    def _password_file(self, user: str, number: int) -> Path:
        path = self.directory / f"{user}-{number}"
        path.write_text(f"secret-{number}")
        return path

    # -- both -----------------------------------------------------------------------------------

    async def _again_and_again(self, do: Callable[[], Awaitable[None]]) -> None:
        while not self._stop.is_set():
            await self._until_known(do)

    async def _until_known(self, do: Callable[[], Awaitable[None]]) -> None:
        """Try with one user after the other, until all changes of one were answered."""
        while True:
            try:
                return await do()
            except UnknownOutcomeError:
                await asyncio.sleep(AGAIN_SECONDS)

    def _is_over(self, turns: int) -> bool:
        """Whether there are no more turns; those of the end are all played."""
        return self._stop.is_set() and turns == TURNS_MAX

    def _is_last(self, turns: int) -> bool:
        return turns != TURNS_MAX

    async def _hold(self, *, is_last: bool) -> None:
        """Let a turn stay; in the end for long enough to be judged on every broker."""
        seconds = 2 * BOUND_SECONDS if is_last else self.random.uniform(*HELD_SECONDS)
        await asyncio.sleep(seconds)

    @property
    def _nodes(self) -> Sequence[int]:
        return list(self.cluster.nodes)

    @contextlib.asynccontextmanager
    async def _one_broker(self) -> AsyncIterator[KafkaClient]:
        """A super user's client of a broker by chance: each one acknowledges changes."""
        async with OneTry(self.cluster.bootstrap, self.random.choice(self._nodes)) as client:
            yield client

    async def _write(self, partition: int) -> None:
        """Write what parked fetches may see: a record says when it was asked to be written."""
        at = TopicPartition(TOPIC, partition)
        async with KafkaClient(self.cluster.bootstrap, request_timeout_ms=REQUEST_MS_MAX) as client:
            while True:
                with contextlib.suppress(KafkaError, KeyError):
                    found = (await client.metadata([TOPIC])).topics[TOPIC].partitions
                    await produce_once(client, found[partition].leader, at, timed_batch(), acks=1)
                await asyncio.sleep(WRITE_PAUSE_SECONDS)


async def _acknowledged(change: Awaitable[object]) -> None:
    """Wait for an answer without an error. Raises UnknownOutcomeError for anything else."""
    try:
        results = await change
    except KafkaError as error:
        raise UnknownOutcomeError(str(error)) from error
    errors = results.values() if isinstance(results, dict) else results
    failed = [error for error in errors if error is not None]  # type: ignore[attr-defined]
    if failed:
        raise UnknownOutcomeError(str(failed[0]))
