"""SHELL: the elected controller: requests and changes of the cluster, one at a time.

Everything runs under one lock. Watches only mark paths to read again (change_processor.py). After a
write with an unknown outcome the whole state is read again. `Fenced` ends the term.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from local_cluster.controller.active import isr_writer
from local_cluster.controller.active.assignment_writer import AssignmentWriter
from local_cluster.controller.active.change_processor import EVERYTHING, ChangeProcessor
from local_cluster.controller.active.cluster_reader import ClusterReader
from local_cluster.controller.active.event_applier import EventApplier
from local_cluster.controller.active.topic_admin import TopicAdmin
from local_cluster.controller.decisions.elections import (
    UNCLEAN_CONFIG,
    election_problem,
    find_imbalanced,
)
from local_cluster.controller.decisions.isr_changes import check_broker_epoch
from local_cluster.controller.decisions.reassignments import ReassignmentRequest
from local_cluster.controller.model import events
from local_cluster.controller.model.cluster_image import ClusterImage
from local_cluster.controller.model.cluster_state import ClusterState, TopicPartition
from local_cluster.controller.model.isr_proposals import IsrProposal, IsrResult
from local_cluster.controller.model.topic_requests import (
    ChargePartitions,
    PartitionsSpec,
    TopicCreation,
    TopicSpec,
    free_of_charge,
)
from local_cluster.controller.zk.coordination import Coordination, CoordinationUnavailable
from local_cluster.controller.zk.term import Fenced, Term
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

RETRY_DELAY_MS: Final = 100
DEFECT_DELAY_MS: Final = 1_000
"""Delay after an unexpected error, which may repeat."""
REBALANCE_INTERVAL_S: Final = 300
"""Kafka's default of leader.imbalance.check.interval.seconds."""
IMBALANCE_PERCENTAGE_MAX: Final = 10
"""Kafka's default of leader.imbalance.per.broker.percentage."""


class ActiveController:
    """One term. `publish` gets every new image. `fenced` is called with this controller when the
    term is over, possibly long after: requests may still run then."""

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
        """Before that the state is empty: no request may be answered from it."""
        self._settings = settings
        self._fenced = fenced
        fsync = settings.flush == "fsync"
        reader = ClusterReader(coordination, term, new_uuid, fsync=fsync)
        assignments = AssignmentWriter(coordination, term)
        self._applier = EventApplier(
            coordination,
            term,
            settings.broker_id,
            ClusterState(
                fsync=fsync,
                controller_id=settings.broker_id,
                unclean_default=settings.config_bool(UNCLEAN_CONFIG, False),
            ),
            reader=reader,
            assignments=assignments,
            publish=publish,
            reassignments_changed=lambda topic: self.changes.reassignments_changed(topic),
            sequence=sequence,
        )
        self._admin = TopicAdmin(coordination, settings, term, self._applier, assignments, new_uuid)
        self.changes = ChangeProcessor(coordination, term, self._applier, reader, self._admin)
        self._lock = asyncio.Lock()

    @property
    def state(self) -> ClusterState:
        """The state of the cluster."""
        return self._applier.state

    @property
    def sequence(self) -> int:
        """Sequence of the image that was published last."""
        return self._applier.sequence

    # -- the term ---------------------------------------------------------------------------

    async def load(self) -> None:
        """Read everything and apply it. Raises Fenced or CoordinationUnavailable."""
        async with self._lock:
            await self.changes.load()
            self.is_loaded = True

    async def run(self) -> None:
        """Process changes until the term is over."""
        loop = asyncio.get_running_loop()
        period_s = self._settings.config_int(
            "leader.imbalance.check.interval.seconds", REBALANCE_INTERVAL_S
        )
        rebalance_at = loop.time() + period_s
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(rebalance_at):
                    await self.changes.arrived.wait()
            self.changes.arrived.clear()
            try:
                async with self._lock:
                    await self.changes.process()
                    if loop.time() >= rebalance_at:
                        rebalance_at = loop.time() + period_s
                        await self._rebalance_leaders()
            except CoordinationUnavailable as error:
                log.warning("ZooKeeper does not answer the controller: %s", error)
                self.changes.mark(EVERYTHING)
                await asyncio.sleep(RETRY_DELAY_MS / 1000)
            except Fenced as error:
                log.warning("this controller is deposed: %s", error)
                self._fenced(self)
                return
            except Exception:
                # Outermost handler: without it the cluster would have no controller until this
                # broker's session ends.
                log.exception("the controller failed; reading everything again")
                self.changes.mark(EVERYTHING)
                await asyncio.sleep(DEFECT_DELAY_MS / 1000)

    async def _rebalance_leaders(self) -> None:
        """Elect preferred leaders, if a broker leads too few of its preferred partitions."""
        if not self._settings.config_bool("auto.leader.rebalance.enable", True):
            return
        percentage_max = self._settings.config_int(
            "leader.imbalance.per.broker.percentage", IMBALANCE_PERCENTAGE_MAX
        )
        wanted = find_imbalanced(self._applier.state, percentage_max)
        if wanted:
            log.info("electing the preferred leaders of %d partitions", len(wanted))
            await self._applier.apply(events.ElectionsRequested(tuple(wanted)))

    # -- requests ---------------------------------------------------------------------------

    async def create_topics(
        self,
        specs: Sequence[TopicSpec],
        *,
        validate_only: bool,
        charge: ChargePartitions = free_of_charge,
    ) -> list[TopicCreation]:
        """Create the valid topics; return one result per spec. Raises KafkaError for all."""
        async with self._lock:
            with self._as_kafka_errors():
                return await self._admin.create_topics(specs, validate_only, charge)

    async def delete_topics(
        self, names: Sequence[str], *, charge: ChargePartitions = free_of_charge
    ) -> dict[str, KafkaError | None]:
        """Mark topics for deletion; each is purged once every broker with a replica confirmed."""
        async with self._lock:
            with self._as_kafka_errors():
                return await self._admin.delete_topics(names, charge)

    async def create_partitions(
        self,
        specs: Sequence[PartitionsSpec],
        *,
        validate_only: bool,
        charge: ChargePartitions = free_of_charge,
    ) -> dict[str, KafkaError | None]:
        """Add partitions; return one result per topic. Raises KafkaError for all of them."""
        async with self._lock:
            with self._as_kafka_errors():
                return await self._admin.create_partitions(specs, validate_only, charge)

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> None:
        """Move leadership off a broker that shuts down. Raises KafkaError."""
        async with self._lock:
            with self._as_kafka_errors():
                check_broker_epoch(self._applier.state, broker_id, broker_epoch)
                log.info("controlled shutdown of broker %d", broker_id)
                await self._applier.apply(events.BrokerShuttingDown(broker_id))

    async def alter_reassignments(
        self, requests: Sequence[ReassignmentRequest], *, may_change_factor: bool
    ) -> dict[TopicPartition, KafkaError | None]:
        """Start or cancel reassignments; return one result each. Raises KafkaError for all."""
        async with self._lock:
            with self._as_kafka_errors():
                results = await self._admin.alter_reassignments(
                    requests, may_change_factor=may_change_factor
                )
                for topic in {request.topic for request in requests}:
                    self.changes.reassignments_changed(topic)
                return results

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition], unclean: bool
    ) -> dict[TopicPartition, KafkaError | None]:
        """Hold requested elections; return one result each. Raises KafkaError for all of them."""
        async with self._lock:
            with self._as_kafka_errors():
                errors = {
                    key: election_problem(self._applier.state, key, unclean) for key in partitions
                }
                wanted = tuple(key for key, error in errors.items() if error is None)
                await self._applier.apply(events.ElectionsRequested(wanted, unclean))
                return errors

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[IsrProposal]
    ) -> list[IsrResult]:
        """Write the ISRs that a leader proposes; return one result per proposal, in order.

        Raises KafkaError for all of them: stale_broker_epoch, not_controller, request_timed_out.
        """
        async with self._lock:
            with self._as_kafka_errors():
                return await isr_writer.alter_partitions(
                    self._applier, broker_id, broker_epoch, proposals
                )

    @contextlib.contextmanager
    def _as_kafka_errors(self) -> Iterator[None]:
        try:
            yield
        except CoordinationUnavailable as error:
            self.changes.mark(EVERYTHING)
            raise KafkaError(
                ErrorCode.request_timed_out, f"ZooKeeper did not answer: {error}"
            ) from error
        except Fenced as error:
            self._fenced(self)
            raise KafkaError(ErrorCode.not_controller, str(error)) from error
        except KafkaError:
            raise
        except Exception:
            # Some decided writes may be missing: read everything again.
            self.changes.mark(EVERYTHING)
            raise
