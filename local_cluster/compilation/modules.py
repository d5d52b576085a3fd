"""Which modules are compiled: those that run per request or per batch.

mypyc compiles a class only if it inherits from no builtin and from no more than one class. A
compiled module has no coroutines: an exception that a compiled coroutine has handled may be raised
again. A test must not assign to the methods of a compiled class; give the class what it calls.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "heliograph"
"""Name of the shared library that holds the code of all modules."""

COMPILED_MODULES: Final = (
    "local_cluster.client.produce_batches",
    "local_cluster.fetch_sessions.session",
    "local_cluster.fetch_sessions.session_cache",
    "local_cluster.fetch_sessions.watches",
    "local_cluster.groups.offsets",
    "local_cluster.groups.records",
    "local_cluster.handlers.data.delayed_produce",
    "local_cluster.handlers.data.p00_produce",
    "local_cluster.handlers.data.p01_fetch",
    "local_cluster.handlers.data.p02_list_offsets",
    "local_cluster.handlers.deferred",
    "local_cluster.handlers.registry",
    "local_cluster.log.partition.batch_checks",
    "local_cluster.log.partition.follower_appender",
    "local_cluster.log.partition.leader_appender",
    "local_cluster.log.partition.log_flusher",
    "local_cluster.log.partition.log_reader",
    "local_cluster.log.partition.log_state",
    "local_cluster.log.partition.log_writer",
    "local_cluster.log.partition.partition_log",
    "local_cluster.log.partition.record_checks",
    "local_cluster.log.segment.batch_lookup",
    "local_cluster.log.segment.index",
    "local_cluster.log.segment.segment",
    "local_cluster.log.state.epochs",
    "local_cluster.log.state.producer_state",
    "local_cluster.records.batch",
    "local_cluster.records.committed",
    "local_cluster.records.header",
    "local_cluster.replication.follower.apply_response",
    "local_cluster.replication.follower.fetch_session",
    "local_cluster.replication.follower.response_rules",
    "local_cluster.replication.in_sync",
    "local_cluster.replication.partition",
    "local_cluster.replication.purgatory",
    "local_cluster.server.connection",
    "local_cluster.server.flushing.flush_gathering",
    "local_cluster.server.mute",
    "local_cluster.server.outbox",
    "local_cluster.server.request_dispatch",
    "local_cluster.server.socket_waits",
    "local_cluster.transactions.records",
    "local_cluster.transactions.shard",
    "local_cluster.transactions.transaction",
    "local_cluster.transactions.transaction_fsm",
    "local_cluster.wire.api",
    "local_cluster.wire.fetch.model",
    "local_cluster.wire.fetch.request",
    "local_cluster.wire.fetch.response",
    "local_cluster.wire.frame",
    "local_cluster.wire.header",
    "local_cluster.wire.list_offsets",
    "local_cluster.wire.metadata",
    "local_cluster.wire.primitives",
    "local_cluster.wire.produce",
    "local_cluster.wire.topics",
    "mirror_maker.copy.batch_selection",
    "mirror_maker.copy.batch_splitting",
    "mirror_maker.copy.coalescing",
    "mirror_maker.copy.mm2_offset_syncs",
    "mirror_maker.copy.open_block",
    "mirror_maker.copy.passthrough",
    "mirror_maker.copy.receipts",
    "mirror_maker.copy.replicator",
    "mirror_maker.flow.copy_permit",
    "mirror_maker.formats.gaps",
    "mirror_maker.formats.offset_map",
    "mirror_maker.formats.receipts",
)
