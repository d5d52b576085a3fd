"""Replacements for classes of kio 0.6.5 that cannot hold what Kafka sends.

- DescribeTransactionsResponse v0: a transaction that never started has the start time -1, which
  kio refuses to read. Here it is None, as in kio's other fields of optional times.

No postponed annotations in this module: kio reads the types of the fields.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from kio.schema.describe_transactions.v0 import response as v0
from kio.schema.errors import ErrorCode
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import ProducerId, TransactionalId
from kio.static.constants import EntityType
from kio.static.primitive import TZAware, i16, i32Timedelta

from local_cluster.wire.api import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """The state of one transactional id."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(65)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    transactional_id: TransactionalId = field(metadata={"kafka_type": "string"})
    transaction_state: str = field(metadata={"kafka_type": "string"})
    transaction_timeout: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    transaction_start_time: TZAware | None = field(metadata={"kafka_type": "datetime_i64"})
    producer_id: ProducerId = field(metadata={"kafka_type": "int64"})
    producer_epoch: i16 = field(metadata={"kafka_type": "int16"})
    topics: tuple[v0.TopicData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponse:
    """The states of the requested transactional ids."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(65)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    transaction_states: tuple[TransactionState, ...]


RESPONSES: Final[dict[tuple[int, int], Any]] = {
    (ApiKey.DESCRIBE_TRANSACTIONS, 0): DescribeTransactionsResponse
}
"""By (api key, version)."""
