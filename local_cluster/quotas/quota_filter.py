"""The filter of DescribeClientQuotas (KIP-546), checked as by Kafka 4.4. Pure.

Each component names a type of entity, and an exact name, the default, or any name. An entity
matches if it has every type of the filter with such a name; in a strict filter it has no other
types. No component matches everything, or nothing if it is strict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from local_cluster.quotas.entity import CLIENT_ID, ENTITY_TYPES, IP, USER, Entity
from local_cluster.wire.errors import ErrorCode, KafkaError

MATCH_EXACT: Final = 0
MATCH_DEFAULT: Final = 1
MATCH_SPECIFIED: Final = 2
"""Any name, and the default too."""


class Component(Protocol):
    """One component of a request."""

    @property
    def entity_type(self) -> str: ...

    @property
    def match_type(self) -> int: ...

    @property
    def match(self) -> str | None: ...


class QuotaFilter(NamedTuple):
    """Names by type, None for the default; types with any name; whether there may be others."""

    exact: dict[str, str | None]
    any_name: frozenset[str]
    is_strict: bool

    def matches(self, which: Entity) -> bool:
        """Return whether an entity is asked for."""
        names = dict(which)
        if self.is_strict and len(names) != len(self.exact) + len(self.any_name):
            return False
        return self.any_name <= names.keys() and self.exact.items() <= names.items()


def parse_filter(components: Sequence[Component], *, strict: bool) -> QuotaFilter:
    """Return the filter of a request. Raises KafkaError for an invalid one."""
    exact: dict[str, str | None] = {}
    any_name: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _refused("Invalid empty entity type.")
        if kind in exact or kind in any_name:
            raise _refused(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.unsupported_version, f"Unsupported entity type {kind}")
        problem = _match_problem(component)
        if problem is not None:
            raise _refused(problem)
        if component.match_type == MATCH_SPECIFIED:
            any_name.add(kind)
        else:
            exact[kind] = component.match
    kinds = exact.keys() | any_name
    if IP in kinds and kinds & {USER, CLIENT_ID}:
        raise _refused(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
    return QuotaFilter(exact, frozenset(any_name), strict)


def _match_problem(component: Component) -> str | None:
    """Return why a component is invalid: exact needs a match string, the others have none."""
    kind, has_match = component.match_type, component.match is not None
    if kind not in (MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED):
        return f"Unknown match type {kind}"
    if kind == MATCH_EXACT and not has_match:
        return "Request specified MATCH_TYPE_EXACT, but set match string to null."
    if kind == MATCH_DEFAULT and has_match:
        return "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."
    if kind == MATCH_SPECIFIED and has_match:
        return "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."
    return None


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
