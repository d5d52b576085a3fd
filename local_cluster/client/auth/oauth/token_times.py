"""When a token is renewed, as Kafka's ExpiringCredentialRefreshingLogin does. Pure."""

from __future__ import annotations

from local_cluster.client.auth.oauth.settings import OauthLogin


def renewal_ms(starts_ms: int, ends_ms: int, login: OauthLogin) -> int:
    """Return when a token is due for renewal, in milliseconds since 1970.

    That is after its share of the lifetime, but `refresh_buffer_seconds` before its end at the
    latest, and after `refresh_min_period_seconds` at the earliest. A token that is too short for
    both has its share alone.
    """
    lifetime_ms = max(ends_ms - starts_ms, 0)
    by_share_ms = starts_ms + int(lifetime_ms * login.refresh_window_factor)
    buffer_ms = login.refresh_buffer_seconds * 1_000
    period_ms = login.refresh_min_period_seconds * 1_000
    if lifetime_ms <= buffer_ms + period_ms:
        return by_share_ms
    return max(min(by_share_ms, ends_ms - buffer_ms), starts_ms + period_ms)
