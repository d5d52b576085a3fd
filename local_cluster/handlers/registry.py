"""The handlers by API key and versions. The ApiVersions response comes from here.

A handler is a plain function `(broker, context, request) -> Reply`. What it does before it returns
happens in request order on its connection. For a response that has to wait (a rebalance, a commit)
it returns an awaitable, on the hot paths a `Deferred`. The next request is dispatched meanwhile.
Responses leave in request order, whichever is ready first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from local_cluster.handlers.deferred import Body
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey

Reply = Body | Awaitable[Body | None] | None
"""A response, or an awaitable of one; None for a request that gets none."""

HandlerFunction = Callable[[BrokerServices, RequestContext, Any], Reply]


@dataclass(frozen=True, slots=True)
class Handler:
    """One registered API."""

    api_key: int
    min_version: int
    max_version: int
    function: HandlerFunction
    raw: bool
    """The function gets the body's bytes (a writable memoryview) instead of kio's object."""
    advertised_min_version: int
    """The oldest version in ApiVersions; it differs from `min_version` for Produce."""
    is_advertised: bool
    """False for requests between the brokers of one cluster, and for those of links."""


_HANDLERS: dict[int, Handler] = {}


def handles(
    api_key: ApiKey,
    *,
    min_version: int,
    max_version: int,
    raw: bool = False,
    advertised_min_version: int | None = None,
    is_advertised: bool = True,
) -> Callable[[HandlerFunction], HandlerFunction]:
    """Register the decorated function for an API and an inclusive range of versions."""

    def register(function: HandlerFunction) -> HandlerFunction:
        if api_key in _HANDLERS:
            raise ValueError(f"two handlers for {api_key.name}")
        _HANDLERS[api_key] = Handler(
            api_key,
            min_version,
            max_version,
            function,
            raw,
            min_version if advertised_min_version is None else advertised_min_version,
            is_advertised,
        )
        return function

    return register


def find_handler(api_key: int) -> Handler | None:
    """Return the handler of an API key, or None."""
    return _HANDLERS.get(api_key)


def advertised_apis() -> list[Handler]:
    """Return the APIs in the ApiVersions response, by ascending key."""
    return [handler for _, handler in sorted(_HANDLERS.items()) if handler.is_advertised]


def all_apis() -> list[Handler]:
    """Return all registered APIs, by ascending key."""
    return [handler for _, handler in sorted(_HANDLERS.items())]
