"""`heliograph spark move-table`: a table goes on from another aggregate. Shell.

The positions of the table become those of the other aggregate, by the offset maps of both. The move
takes the table over first, so the positions stand still. Its second commit replaces them. A move
that ends anywhere before leaves the table with the aggregate that it follows.

Guarantee: no record is twice in the table, and none is left out, or the move is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from pyiceberg.exceptions import NoSuchTableError
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from local_cluster.wire.errors import KafkaError
from spark_global.addresses import ClusterAddress
from spark_global.iceberg.catalogues import UNREACHABLE, open_catalogue
from spark_global.iceberg.staging import Batch, TableRefusedError
from spark_global.iceberg.table_state import TableState
from spark_global.iceberg.table_writer import TableWriter, WriterReplacedError, check_table
from spark_global.streaming.moving import cluster_id_of, move_positions
from spark_global.streaming.positions import CheckpointError, StreamPositions
from spark_global.streaming.translation import LinkBehindError

WAIT_SECONDS: Final = 60.0
"""Default of the seconds to wait for links that are behind."""
PAUSE_SECONDS: Final = 0.5

REFUSALS: Final = (
    CheckpointError,
    KafkaError,
    NoSuchTableError,
    TableRefusedError,
    WriterReplacedError,
    *UNREACHABLE,
)
"""What ends a move with a message."""


def move_table(
    catalogue: str,
    identifier: tuple[str, ...],
    *,
    here: ClusterAddress,
    to: ClusterAddress,
    wait_seconds: float = WAIT_SECONDS,
) -> TableState:
    """Let a table follow the aggregate `to` instead of `here`; return its state.

    A running writer stops at its next commit. A table that follows `to` already stays as it is.
    Raises `REFUSALS`; for one that waiting cannot mend the writer goes on.
    """
    opened = open_catalogue(catalogue)
    state = check_table(opened.load_table(identifier))
    if state.query is not None:
        raise TableRefusedError(
            f"it keeps {state.view}, whose open windows are in the checkpoint of its query, so the "
            "table alone cannot follow another aggregate; begin a new table there"
        )
    there = asyncio.run(cluster_id_of(to))
    if there and state.positions.cluster_id == there:
        return state

    def translated(held: StreamPositions) -> StreamPositions:
        return asyncio.run(move_positions(held, here=here, to=to))

    with contextlib.suppress(LinkBehindError):  # they catch up once the writer has stopped
        translated(state.positions)
    writer = TableWriter(opened, identifier, state.view)
    held = writer.take_over().positions
    patiently = Retrying(
        stop=stop_after_delay(wait_seconds),
        wait=wait_fixed(PAUSE_SECONDS),
        retry=retry_if_exception_type(LinkBehindError),
        reraise=True,
    )
    moved = patiently(translated, held)
    return writer.commit(Batch(start=held, end=moved, complete={}, is_move=True))
