"""The schemas that wrote values, by datacenter and schema id: each is prepared once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Generic, TypeVar

from spark_global.values.declaring import ANY_DATACENTER, Registry
from spark_global.values.fetched import Fetched
from spark_global.values.header import read_schema_id
from spark_global.values.not_decodable import NotDecodable, UnusableSchema

WRITERS_MAX: Final = 1_000
"""Most schemas that one task keeps prepared."""

T = TypeVar("T")
Fetch = Callable[[Registry, int], Fetched]


class Writers(Generic[T]):
    """What a decoder makes of each schema; also of those that it cannot use."""

    def __init__(
        self, registries: Mapping[str, Registry], fetch: Fetch, prepare: Callable[[Fetched], T]
    ) -> None:
        """`prepare` raises NotDecodable or UnusableSchema for a schema that is of no use."""
        self._registries = registries
        self._fetch = fetch
        self._prepare = prepare
        self._found = lru_cache(maxsize=WRITERS_MAX)(self._find)

    def find(self, datacenter: str | None, schema_id: int) -> T | NotDecodable:
        """Return what was made of a schema, or why there is nothing. Raises RegistryError."""
        return self._found(datacenter, schema_id)

    def _find(self, datacenter: str | None, schema_id: int) -> T | NotDecodable:
        registry = self._registries.get(datacenter or "", self._registries.get(ANY_DATACENTER))
        if registry is None:
            return NotDecodable(f"datacenter {datacenter or 'unknown'} has no registry")
        try:
            return self._prepare(self._fetch(registry, schema_id))
        except NotDecodable as error:
            return error
        except UnusableSchema as error:
            return NotDecodable(f"schema id {schema_id}: {error}")


def by_writer(
    datacenters: Sequence[str | None], values: Sequence[bytes | None], reasons: dict[int, str]
) -> dict[tuple[str | None, int], list[int]]:
    """Return the indexes of the values by datacenter and schema id; add reasons for the others."""
    found: dict[tuple[str | None, int], list[int]] = {}
    for index, (datacenter, value) in enumerate(zip(datacenters, values, strict=True)):
        if value is None:
            continue
        try:
            found.setdefault((datacenter, read_schema_id(value)), []).append(index)
        except NotDecodable as error:
            reasons[index] = str(error)
    return found
