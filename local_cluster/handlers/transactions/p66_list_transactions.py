"""ListTransactions v0-v2: the transactional ids that this broker coordinates (KIP-664).

v1 adds the duration filter (KIP-994): only transactions that have been open for longer, in
milliseconds. v2 adds a pattern (KIP-1152): an RE2 expression that must match the whole id; an
invalid one is INVALID_REGULAR_EXPRESSION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cluster.groups.topic_regex import InvalidRegexError, TopicRegex
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.transactions.transaction_fsm import TransactionState
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.messages import get

if TYPE_CHECKING:
    from kio.schema.list_transactions.v2.request import ListTransactionsRequest

    from local_cluster.wire.responses.transactions import ListTransactionsResponse


@handles(ApiKey.LIST_TRANSACTIONS, min_version=0, max_version=2)
def list_transactions(
    broker: BrokerServices, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """List the transactional ids that pass all filters."""
    pattern: str | None = get(request, "transactional_id_pattern", None)
    error, transactions = broker.transactions.list_transactions()
    names = {state.value for state in TransactionState}
    states: set[str] = set(request.state_filters)
    producer_ids: set[int] = set(request.producer_id_filters)
    duration_ms = get(request, "duration_filter", -1)
    now_ms = broker.clock.now_ms()
    seen = [
        known
        for known in transactions
        if (not states or known.state.value in states)
        and (not producer_ids or known.producer_id in producer_ids)
        and (duration_ms < 0 or (known.start_ms >= 0 and now_ms - known.start_ms > duration_ms))
        and broker.may(context, "DESCRIBE", "TRANSACTIONAL_ID", known.transactional_id)
    ]
    if pattern:
        try:
            # Only ids that the client may see: a search takes time of the loop.
            matching = TopicRegex(pattern).select(known.transactional_id for known in seen)
        except InvalidRegexError:
            code = ErrorCode.invalid_regular_expression
            return {"error_code": code, "transaction_states": ()}
        names_seen = frozenset(matching)
        seen = [known for known in seen if known.transactional_id in names_seen]
    return {
        "error_code": error,
        "unknown_state_filters": tuple(sorted(states - names)),
        "transaction_states": [
            {
                "transactional_id": known.transactional_id,
                "producer_id": known.producer_id,
                "transaction_state": known.state.value,
            }
            for known in seen
        ],
    }
