"""Which function answers which API at which versions; the ApiVersions answer comes from here.

A handler is a plain function `(broker, context, request) -> Reply`. What it does before it
returns happens in request order on its connection; it may return an awaitable for an answer that
has to wait (a rebalance; on the hot paths a `Deferred`), and the next request is dispatched
meanwhile. Answers leave in request order whatever finishes first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey

FieldMapping = Mapping[str, Any]
Reply = FieldMapping | bytes | list[Any] | Awaitable[Any] | None
"""Response fields; or the body encoded already, as bytes or as a list of bytes and slices of
segments; or any of them later; None: no answer."""

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
    """What ApiVersions says, where that differs from what is served (Produce)."""
    is_advertised: bool
    """False for what only brokers of this cluster ask each other."""


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
    """The handler of an API key, or None."""
    return _HANDLERS.get(api_key)


def advertised_apis() -> list[Handler]:
    """What clients are told about, by ascending key; APIs between brokers are not among them."""
    return [handler for _, handler in sorted(_HANDLERS.items()) if handler.is_advertised]


def all_apis() -> list[Handler]:
    """Everything that is registered, by ascending key."""
    return [handler for _, handler in sorted(_HANDLERS.items())]
