"""Who has a quota: a user, a client id, both, or an address; each by name or as the default. Pure.

    /config/users/U              the user U
    /config/users/U/clients/C    the user U with the client id C
    /config/clients/C            the client id C
    /config/ips/I                the address I

As in Kafka 3.9, a name is sanitized, and `<default>` in place of a name is the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from local_cluster.controller.model.znode_paths import (
    ADDRESS_CONFIGS,
    CLIENT_CONFIGS,
    CONFIGS,
    USER_CONFIGS,
    desanitize,
    sanitize,
)

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

CLIENTS_OF_USER: Final = "clients"
"""The folder of a user's client ids."""
DEFAULT: Final = "<default>"

Entity = tuple[tuple[str, str | None], ...]
"""(type, name) pairs in the order of ENTITY_TYPES. None is the default."""


def entity(names: Mapping[str, str | None]) -> Entity:
    """Return the entity with these names by type."""
    return tuple((kind, names[kind]) for kind in ENTITY_TYPES if kind in names)


def path_of(which: Entity) -> str:
    """Return the path of an entity's znode. Its combination of types must be a legal one."""
    names = {kind: _encoded(name) for kind, name in which}
    match sorted(names):
        case ["client-id", "user"]:
            return f"{USER_CONFIGS}/{names[USER]}/{CLIENTS_OF_USER}/{names[CLIENT_ID]}"
        case ["user"]:
            return f"{USER_CONFIGS}/{names[USER]}"
        case ["client-id"]:
            return f"{CLIENT_CONFIGS}/{names[CLIENT_ID]}"
        case ["ip"]:
            return f"{ADDRESS_CONFIGS}/{names[IP]}"
    raise AssertionError(f"no path for {which}")


def entity_at(path: str) -> Entity | None:
    """Return the entity of a path, None for another path. Raises ValueError for a bad name."""
    match path.removeprefix(f"{CONFIGS}/").split("/"):
        case ["users", user]:
            return ((USER, _decoded(user)),)
        case ["users", user, "clients", client_id]:
            return ((USER, _decoded(user)), (CLIENT_ID, _decoded(client_id)))
        case ["clients", client_id]:
            return ((CLIENT_ID, _decoded(client_id)),)
        case ["ips", address]:
            return ((IP, _decoded(address)),)
    return None


def _encoded(name: str | None) -> str:
    return DEFAULT if name is None else sanitize(name)


def _decoded(name: str) -> str | None:
    return None if name == DEFAULT else desanitize(name)
