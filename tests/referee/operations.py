"""Do what a plan does to topics: overtake the mirror, re-create, add partitions."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import confluent_kafka

from tests.referee.admin import Admin, AdminGaveUp
from tests.referee.clients import LIBRDKAFKA, Client
from tests.referee.deployment import CommandFailed, Deployment
from tests.referee.faults import Injector
from tests.referee.load import Load
from tests.referee.modes import LinkShape, State, copy_name
from tests.referee.plan import (
    Behead,
    Grow,
    Intrude,
    Kill,
    Operation,
    Overtake,
    Plan,
    Recreate,
    Victim,
)

HELD_SECONDS: Final = 3.0
"""How long records gather that the mirror is kept from."""
SHORT_RETENTION_MS: Final = 500
RETENTION_SECONDS: Final = 5.0
"""How long the retention is short: a segment and some checks of the broker."""
WRITE_SECONDS_MAX: Final = 10.0
"""How long it is waited for something to be copied."""
POLL_SECONDS: Final = 0.03
"""A worker writes its map half a second after it has copied something."""
INTRUDING_RECORDS: Final = 3
INTRUDING_SECONDS_MAX: Final = 10.0
TELL_SECONDS_MAX: Final = 60.0
"""How long a link is told again to hold or to release: its worker may be away."""


class Operator(Client):
    """Does the operations of a plan, each when it is due."""

    def __init__(
        self,
        plan: Plan,
        deployment: Deployment,
        admins: Mapping[str, Admin],
        load: Load,
        injector: Injector,
        say: Callable[[str], None],
    ) -> None:
        super().__init__("operator")
        self._plan = plan
        self._deployment = deployment
        self._admins = admins
        self._load = load
        self._injector = injector
        self._say = say
        self._random = random.Random(plan.seed)
        self._held: set[str] = set()
        """Links that may be held still."""
        self.done: Counter[str] = Counter()

    def release_all(self) -> None:
        """Release what could not be released in its time. Raises CommandFailed."""
        for link in list(self._held):
            self._release(link)

    def work(self) -> None:
        started = time.monotonic()
        for due, operation in self._plan.operations:
            self.pause(started + due - time.monotonic())
            if self.stopping.is_set():
                return
            self._say(f"operation: {operation}")
            try:
                self._do(operation)
            except (AdminGaveUp, CommandFailed) as error:
                self._say(f"operation not done: {error}")
                self.done["operations not done"] += 1

    def _do(self, operation: Operation) -> None:
        match operation:
            case Overtake():
                self._overtake(operation)
                self.done["overtaken"] += 1
            case Behead(link):
                if self._behead(link):
                    self.done["beheaded"] += 1
            case Intrude():
                self._intrude(operation)
                self.done["intruded"] += 1
            case Recreate(cluster):
                self._load.replace(cluster, State.RECREATED)
                self.done["re-created"] += 1
            case Grow(cluster, added):
                topic = str(State.GROWN)
                admin = self._admins[cluster]
                admin.add_partitions(topic, admin.partition_counts()[topic] + added)
                self.done["grown"] += 1

    def _overtake(self, operation: Overtake) -> None:
        topic = str(State.RETENTION)
        link, admin = operation.link, self._admins[operation.link.source]
        self._held.add(link.name)
        self._tell(lambda: self._deployment.hold(link.name, topic))
        try:
            self.pause(HELD_SECONDS)
            if operation.by_retention:
                admin.set_config(topic, "retention.ms", str(SHORT_RETENTION_MS))
                try:
                    self.pause(RETENTION_SECONDS)
                finally:
                    admin.set_config(topic, "retention.ms", "-1")
            else:
                self._delete_some(admin, topic)
        finally:
            self._release(link.name)

    def _behead(self, link: LinkShape) -> bool:
        """Whether anything was copied meanwhile, so that there is a point in it."""
        topic, admin = str(State.RETENTION), self._admins[link.source]
        places = [(topic, number) for number in range(admin.partition_counts()[topic])]
        roles = ("mirror", "worker") if link.target in self._plan.extra_workers else ("mirror",)
        kill = self._injector.aim(Kill(tuple(Victim(role, link.target) for role in roles)))
        target = self._admins[link.target]
        copy = copy_name(self._plan.mode, link, topic)
        copies = [(copy, number) for number in range(target.partition_counts().get(copy, 0))]
        before, copied = admin.ends(places), target.ends(copies)
        deadline = time.monotonic() + WRITE_SECONDS_MAX
        while target.ends(copies) == copied:
            if time.monotonic() > deadline or self.stopping.is_set():
                return False
            time.sleep(POLL_SECONDS)
        ends = admin.ends(places)
        kill()
        admin.delete_records({at: end for at, end in ends.items() if end > before[at]})
        return True

    def _intrude(self, intrusion: Intrude) -> None:
        link = intrusion.link
        topic = copy_name(self._plan.mode, link, str(intrusion.state))
        admin = self._admins[link.target]
        producer: Any = confluent_kafka.Producer(
            {**LIBRDKAFKA, "bootstrap.servers": admin.bootstrap}
        )
        for number in range(INTRUDING_RECORDS):
            partition = number % admin.partition_counts()[topic]
            producer.produce(topic, value=b"of an intruder", partition=partition)
            producer.flush(INTRUDING_SECONDS_MAX)

    def _release(self, link: str) -> None:
        self._tell(lambda: self._deployment.release(link, str(State.RETENTION)))
        self._held.discard(link)

    def _delete_some(self, admin: Admin, topic: str) -> None:
        places = [(topic, number) for number in range(admin.partition_counts()[topic])]
        starts, ends = admin.starts(places), admin.ends(places)
        chosen: Sequence[tuple[str, int]] = self._random.sample(places, (len(places) + 1) // 2)
        # Late in the log: what lies there has not been copied yet.
        before = {
            place: self._random.randint((starts[place] + 3 * ends[place]) // 4, ends[place])
            for place in chosen
        }
        admin.delete_records(before)

    def _tell(self, tell: Callable[[], None]) -> None:
        deadline = time.monotonic() + TELL_SECONDS_MAX
        while True:
            try:
                tell()
                return
            except CommandFailed:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1.0)
