"""Every quota that one broker applies. Pure.

Where no client has a quota of a kind, a request costs one look at `is_used`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from local_cluster.quotas.client_rates import ClientRates
from local_cluster.quotas.limits import Quotas
from local_cluster.quotas.mutation_tokens import MutationTokens
from local_cluster.quotas.quota_keys import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from local_cluster.quotas.windowed_rate import WINDOW_MS_DEFAULT, WINDOWS_DEFAULT

WINDOWS: Final = "quota.window.num"
WINDOW_SECONDS: Final = "quota.window.size.seconds"
MUTATION_WINDOWS: Final = "controller.quota.window.num"
MUTATION_WINDOW_SECONDS: Final = "controller.quota.window.size.seconds"


class ClientQuotas:
    """The quotas of one broker."""

    def __init__(self, config: Mapping[str, str], exempt: Collection[str] = ()) -> None:
        """`config` has broker configs. `exempt` has the principals of the brokers: for them only a
        quota holds that names their user."""
        windows = int(config.get(WINDOWS, WINDOWS_DEFAULT))
        window_ms = int(config.get(WINDOW_SECONDS, WINDOW_MS_DEFAULT // 1000)) * 1000

        def rates(key: str, *, wait_ms_max: int | None = None) -> ClientRates:
            return ClientRates(
                key, windows=windows, window_ms=window_ms, wait_ms_max=wait_ms_max, exempt=exempt
            )

        self.produce = rates(PRODUCER_BYTE_RATE)
        """Bytes of Produce requests."""
        self.fetch = rates(CONSUMER_BYTE_RATE)
        """Bytes of Fetch responses to consumers."""
        self.request = rates(REQUEST_PERCENTAGE, wait_ms_max=window_ms)
        """Time of handlers, in percent of the broker's event loop."""
        self.mutations = MutationTokens(
            windows=int(config.get(MUTATION_WINDOWS, WINDOWS_DEFAULT)),
            window_ms=int(config.get(MUTATION_WINDOW_SECONDS, WINDOW_MS_DEFAULT // 1000)) * 1000,
            exempt=exempt,
        )
        """Partitions that are created and deleted."""

    def set_quotas(self, quotas: Quotas) -> None:
        """Apply changed quotas, also to clients that are connected."""
        for each in (self.produce, self.fetch, self.request, self.mutations):
            each.set_quotas(quotas)
