"""Requests with an empty transactional id, which names no transaction."""

from __future__ import annotations

import pytest

import local_cluster.handlers.transactions.p26_end_txn
import local_cluster.handlers.transactions.p65_describe_transactions  # noqa: F401
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.groups.doubles import FakeBroker


@pytest.mark.parametrize("version", range(6))
async def test_no_transaction_without_an_id_is_ended(version: int) -> None:
    response = await FakeBroker().send(
        ApiKey.END_TXN,
        version,
        transactional_id="",
        producer_id=1,
        producer_epoch=0,
        committed=True,
    )
    assert response.error_code is ErrorCode.invalid_request


async def test_no_transaction_without_an_id_is_described() -> None:
    response = await FakeBroker().send(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[""])
    (state,) = response.transaction_states
    assert state.error_code is ErrorCode.invalid_request
