"""SHELL: the elected controller: what is asked of it, and what is new, one after another.

Everything runs under one lock; watches only mark what to read again (cluster_events.py). After any
write whose outcome is unknown the whole state is read anew. `Fenced` ends the term.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from local_cluster.controller.active import isr_writer
from local_cluster.controller.active.cluster_events import EVERYTHING, ClusterNews
from local_cluster.controller.active.cluster_reader import ClusterReader
from local_cluster.controller.active.replica_writer import ReplicaWriter
from local_cluster.controller.active.state_keeper import StateKeeper
from local_cluster.controller.active.topic_admin import TopicAdmin
from local_cluster.controller.decisions import fsm
from local_cluster.controller.decisions.elections import (
    UNCLEAN_CONFIG,
    election_problem,
    find_imbalanced,
)
from local_cluster.controller.decisions.isr_requests import IsrProposal, IsrResult, check_proposer
from local_cluster.controller.decisions.reassignments import ReassignmentRequest
from local_cluster.controller.model.cluster_image import ClusterImage
from local_cluster.controller.model.cluster_state import ClusterState, TopicPartition
from local_cluster.controller.model.topic_requests import PartitionsSpec, TopicCreation, TopicSpec
from local_cluster.controller.zk.coordination import Coordination, CoordinationUnavailable
from local_cluster.controller.zk.term import Fenced, Term
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

RETRY_DELAY_MS: Final = 100
DEFECT_DELAY_MS: Final = 1_000
"""After an error that nobody foresaw, and that may well come again."""
REBALANCE_INTERVAL_S: Final = 300
"""Kafka's default of leader.imbalance.check.interval.seconds."""
IMBALANCE_PERCENTAGE_MAX: Final = 10
"""Kafka's default of leader.imbalance.per.broker.percentage."""


class ActiveController:
    """One term. `publish` is given every new image; `fenced` is called with this controller when
    the term is over, also long after: work of requests goes on behind it."""

    def __init__(
        self,
        coordination: Coordination,
        settings: BrokerSettings,
        term: Term,
        *,
        publish: Callable[[ClusterImage], None],
        fenced: Callable[[ActiveController], None],
        new_uuid: Callable[[], uuid.UUID],
        sequence: int = 0,
    ) -> None:
        """`sequence` is that of the last image published in this controller epoch."""
        self.term = term
        self.is_loaded = False
        """Before that it knows nothing, and must not answer as if nothing existed."""
        self._settings = settings
        self._fenced = fenced
        keeps_tails = settings.flush == "fsync"
        reader = ClusterReader(coordination, term, new_uuid, keeps_tails=keeps_tails)
        replicas = ReplicaWriter(coordination, term)
        self._keeper = StateKeeper(
            coordination,
            term,
            settings.broker_id,
            ClusterState(
                keeps_tails=keeps_tails,
                unclean_default=settings.config_bool(UNCLEAN_CONFIG, False),
            ),
            reader=reader,
            replicas=replicas,
            publish=publish,
            moves_changed=lambda topic: self.news.moves_changed(topic),
            sequence=sequence,
        )
        self._admin = TopicAdmin(coordination, settings, term, self._keeper, replicas, new_uuid)
        self.news = ClusterNews(coordination, term, self._keeper, reader, self._admin)
        self._lock = asyncio.Lock()

    @property
    def state(self) -> ClusterState:
        """What is known of the cluster, and under way in it."""
        return self._keeper.state

    @property
    def sequence(self) -> int:
        """Of the image published last."""
        return self._keeper.sequence

    # -- the term ---------------------------------------------------------------------------

    async def load(self) -> None:
        """Read everything and put it in order. Raises Fenced or CoordinationUnavailable."""
        async with self._lock:
            await self.news.load()
            self.is_loaded = True

    async def run(self) -> None:
        """Follow the watches until the term is over."""
        loop = asyncio.get_running_loop()
        period_s = self._settings.config_int(
            "leader.imbalance.check.interval.seconds", REBALANCE_INTERVAL_S
        )
        rebalance_at = loop.time() + period_s
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(rebalance_at):
                    await self.news.came.wait()
            self.news.came.clear()
            try:
                async with self._lock:
                    await self.news.catch_up()
                    if loop.time() >= rebalance_at:
                        rebalance_at = loop.time() + period_s
                        await self._rebalance_leaders()
            except CoordinationUnavailable as error:
                log.warning("ZooKeeper does not answer the controller: %s", error)
                self.news.touch(EVERYTHING)
                await asyncio.sleep(RETRY_DELAY_MS / 1000)
            except Fenced as error:
                log.warning("deposed: %s", error)
                self._fenced(self)
                return
            except Exception:
                # The outermost shell of a term: without it nobody would control until the end of
                # this broker's session.
                log.exception("the controller failed, and reads everything again")
                self.news.touch(EVERYTHING)
                await asyncio.sleep(DEFECT_DELAY_MS / 1000)

    async def _rebalance_leaders(self) -> None:
        """Give leadership back to the preferred replicas, where a broker leads far too little."""
        if not self._settings.config_bool("auto.leader.rebalance.enable", True):
            return
        percentage_max = self._settings.config_int(
            "leader.imbalance.per.broker.percentage", IMBALANCE_PERCENTAGE_MAX
        )
        wanted = find_imbalanced(self._keeper.state, percentage_max)
        if wanted:
            log.info("%d partitions go back to their preferred leaders", len(wanted))
            await self._keeper.apply(fsm.ElectionsWanted(tuple(wanted)))

    # -- requests ---------------------------------------------------------------------------

    async def create_topics(
        self, specs: Sequence[TopicSpec], *, validate_only: bool
    ) -> list[TopicCreation]:
        """Create what may be created; one result per spec. Raises KafkaError for all of them."""
        async with self._lock:
            with self._as_kafka_errors():
                return await self._admin.create_topics(specs, validate_only)

    async def delete_topics(self, names: Sequence[str]) -> dict[str, KafkaError | None]:
        """Mark topics for deletion; they are gone once every replica's broker has said so."""
        async with self._lock:
            with self._as_kafka_errors():
                return await self._admin.delete_topics(names)

    async def create_partitions(
        self, specs: Sequence[PartitionsSpec], *, validate_only: bool
    ) -> dict[str, KafkaError | None]:
        """Add partitions; one result per topic. Raises KafkaError for all of them."""
        async with self._lock:
            with self._as_kafka_errors():
                return await self._admin.create_partitions(specs, validate_only)

    async def relieve(self, broker_id: int, broker_epoch: int) -> None:
        """Let others lead what a broker that shuts down leads. Raises KafkaError."""
        async with self._lock:
            with self._as_kafka_errors():
                check_proposer(self._keeper.state, broker_id, broker_epoch)
                log.info("broker %d shuts down and is relieved", broker_id)
                await self._keeper.apply(fsm.BrokerLeaving(broker_id))

    async def alter_reassignments(
        self, requests: Sequence[ReassignmentRequest], *, may_change_factor: bool
    ) -> dict[TopicPartition, KafkaError | None]:
        """Begin or cancel moves of replicas. Raises KafkaError for all of them."""
        async with self._lock:
            with self._as_kafka_errors():
                results = await self._admin.alter_reassignments(
                    requests, may_change_factor=may_change_factor
                )
                for topic in {request.topic for request in requests}:
                    self.news.moves_changed(topic)
                return results

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition], unclean: bool
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect as asked; one result per partition. Raises KafkaError for all of them."""
        async with self._lock:
            with self._as_kafka_errors():
                errors = {
                    key: election_problem(self._keeper.state, key, unclean) for key in partitions
                }
                wanted = tuple(key for key, error in errors.items() if error is None)
                await self._keeper.apply(fsm.ElectionsWanted(wanted, unclean))
                return errors

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[IsrProposal]
    ) -> list[IsrResult]:
        """Write the in-sync replicas that a leader proposes; one result per proposal, in order.

        Raises KafkaError for all of them: stale_broker_epoch, not_controller, request_timed_out.
        """
        async with self._lock:
            with self._as_kafka_errors():
                return await isr_writer.alter_partitions(
                    self._keeper, broker_id, broker_epoch, proposals
                )

    @contextlib.contextmanager
    def _as_kafka_errors(self) -> Iterator[None]:
        try:
            yield
        except CoordinationUnavailable as error:
            self.news.touch(EVERYTHING)
            raise KafkaError(
                ErrorCode.request_timed_out, f"ZooKeeper did not answer: {error}"
            ) from error
        except Fenced as error:
            self._fenced(self)
            raise KafkaError(ErrorCode.not_controller, str(error)) from error
        except KafkaError:
            raise
        except Exception:
            # Of what it had decided some may not have been done: what holds is read again.
            self.news.touch(EVERYTHING)
            raise
