"""A Confluent-compatible schema registry. Shell.

Each process keeps the schemas that it has fetched: a schema id never changes its schema. A registry
that does not answer is an error of the query and no reason to reject records.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeVar

import httpx2
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from local_cluster.client.auth.credentials import read_secret
from spark_global.values.declaring import Registry
from spark_global.values.fetched import Fetched
from spark_global.values.not_decodable import NotDecodable

SCHEMAS_MAX: Final = 1_000
"""Most schemas of one registry that a process keeps."""
CLIENTS_MAX: Final = 64
RETRIES_MAX: Final = 5
RETRY_WAIT_MS: Final = 200
RETRY_WAIT_MS_MAX: Final = 5_000
TIMEOUT_SECONDS: Final = 10
REFERENCES_MAX: Final = 200
"""Most schemas that a schema may refer to, directly or not."""
_NOT_FOUND_CODES: Final = frozenset({40401, 40402, 40403})
"""The registry's own codes for an unknown subject, version or schema. Any other 404 is a wrong URL.
"""
_SERIALIZED: Final = "serialized"
"""Protobuf: the registry returns a descriptor and not the text of the .proto file."""

T = TypeVar("T")


class RegistryError(RuntimeError):
    """A registry does not answer, or refuses the request."""


def fetch_schema(registry: Registry, schema_id: int, *, serialized: bool) -> Fetched:
    """Return the schema of an id. Raises NotDecodable if there is none, and RegistryError."""
    client, form = _client(registry, serialized), _SERIALIZED if serialized else None

    def ask() -> Fetched:
        return _with_references(client, client.get_schema(schema_id, fmt=form), form)

    return _ask(registry, f"schema id {schema_id}", ask)


def fetch_latest(registry: Registry, subject: str, *, serialized: bool) -> Fetched:
    """Return the latest schema of a subject. Raises NotDecodable, as above, and RegistryError."""
    client, form = _client(registry, serialized), _SERIALIZED if serialized else None

    def ask() -> Fetched:
        return _with_references(client, client.get_latest_version(subject, fmt=form).schema, form)

    return _ask(registry, f"subject {subject}", ask)


def _ask(registry: Registry, what: str, ask: Callable[[], T]) -> T:
    try:
        return ask()
    except NotDecodable:
        raise
    except SchemaRegistryError as error:
        if error.error_code in _NOT_FOUND_CODES:
            raise NotDecodable(f"{what} is not in the registry {registry.url}") from error
        raise RegistryError(f"registry {registry.url}: {what}: {error}") from error
    except (httpx2.TransportError, ValueError) as error:
        raise RegistryError(f"registry {registry.url} does not answer: {what}: {error}") from error


def _with_references(client: SchemaRegistryClient, schema: Any, form: str | None) -> Fetched:
    files: dict[str, str] = {}
    _add_references(client, schema, form, files, 0)
    return Fetched(schema.schema_type, (*files.items(), ("", schema.schema_str)))


def _add_references(
    client: SchemaRegistryClient, schema: Any, form: str | None, files: dict[str, str], depth: int
) -> None:
    for each in schema.references or ():
        if each.name in files:
            continue
        if len(files) >= REFERENCES_MAX or depth >= REFERENCES_MAX:
            raise NotDecodable(f"its schema refers to more than {REFERENCES_MAX} others")
        found: Any = client.get_version(each.subject, each.version, fmt=form).schema
        _add_references(client, found, form, files, depth + 1)
        files[each.name] = found.schema_str


@lru_cache(maxsize=CLIENTS_MAX)
def _client(registry: Registry, serialized: bool) -> SchemaRegistryClient:
    """Return the client of a registry. One keeps schemas of one form only."""
    settings: dict[str, Any] = {
        "url": registry.url,
        "cache.capacity": SCHEMAS_MAX,
        "max.retries": RETRIES_MAX,
        "retries.wait.ms": RETRY_WAIT_MS,
        "retries.max.wait.ms": RETRY_WAIT_MS_MAX,
        "timeout": TIMEOUT_SECONDS,
    }
    if registry.ca_file is not None:
        settings["ssl.ca.location"] = registry.ca_file
    if registry.username is not None and registry.password is not None:
        password = read_secret(registry.password)
        settings["basic.auth.user.info"] = f"{registry.username}:{password}"
    return SchemaRegistryClient(settings)
