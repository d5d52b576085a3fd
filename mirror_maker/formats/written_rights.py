"""The ACLs and quotas that a link wrote on its target, for the link and for links beyond. Pure.

Topic: `heliograph-rights.<link>.internal` on the target, one partition, compacted. It exists if the
link carries ACLs of groups, ACLs of transactional ids, or quotas. Key and value are JSON objects;
both carry `"version": 1`. Keys have a `kind`:

    acl    key    resource_type, resource_name, pattern_type, principal, host, operation,
                  permission; what Kafka numbers is a number
    quota  key    entity: a list of [type, name], null for the default; quota: its name
           value  before, wanted: numbers; `before` is null if there was no quota

A record is written before the ACL or quota itself. So whatever the link wrote has a record, also
after a kill. The target may refuse the change, so the quota before it counts too. A record is
deleted in a later round than its ACL or quota. So a reader that saw the entry finds its record.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from local_cluster.wire.constants import Acl
from mirror_maker.formats.fields import MapFormatError

RIGHTS_VERSION: Final = 1
RIGHTS_TOPIC_PREFIX: Final = "heliograph-rights."
RIGHTS_TOPIC_SUFFIX: Final = ".internal"

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Pairs of a type (user, client-id, ip) and a name; None is the default."""
Record = tuple[bytes, bytes | None]
"""Key, and value or None to delete."""


def rights_topic_name(link: str) -> str:
    """Return the link's topic; MirrorMaker 2's pattern for internal topics excludes it."""
    return f"{RIGHTS_TOPIC_PREFIX}{link}{RIGHTS_TOPIC_SUFFIX}"


def is_rights_topic(topic: str) -> bool:
    """Return whether a topic is some link's."""
    return topic.startswith(RIGHTS_TOPIC_PREFIX) and topic.endswith(RIGHTS_TOPIC_SUFFIX)


class QuotaName(NamedTuple):
    """One quota of one entity."""

    entity: QuotaEntity
    quota: str
    """Such as producer_byte_rate."""


class WrittenQuota(NamedTuple):
    """The values that the link wrote for a quota."""

    before: float | None
    """The link's value before the last change; None if there was none."""
    wanted: float

    def explains(self, value: float) -> bool:
        """Return whether the link may have written this value."""
        return value in (self.before, self.wanted)


class WrittenRights:
    """The state that the records of one topic amount to."""

    def __init__(self) -> None:
        self.acls: set[Acl] = set()
        self.quotas: dict[QuotaName, WrittenQuota] = {}

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Take in the next record of the topic; a null value deletes. Raises MapFormatError."""
        if key is None:
            raise MapFormatError("a record without a key")
        try:
            self._replay(_object(key), None if value is None else _object(value))
        except MapFormatError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise MapFormatError(f"a record of rights: {error!r}") from error

    def _replay(self, k: dict[str, Any], v: dict[str, Any] | None) -> None:
        match k["kind"]:
            case "acl":
                acl = _acl(k)
                self.acls.discard(acl)
                if v is not None:
                    self.acls.add(acl)
            case "quota":
                entity = tuple((str(kind), _optional(name)) for kind, name in k["entity"])
                name = QuotaName(entity, str(k["quota"]))
                self.quotas.pop(name, None)
                if v is not None:
                    before = v["before"]
                    self.quotas[name] = WrittenQuota(
                        None if before is None else float(before), float(v["wanted"])
                    )
            case kind:
                raise MapFormatError(f"unknown kind of record {kind!r}")


def acl_record(acl: Acl, *, is_deleted: bool = False) -> Record:
    """Return key and value."""
    return _dump({"kind": "acl", **acl._asdict()}), None if is_deleted else _dump({})


def quota_record(name: QuotaName, written: WrittenQuota | None) -> Record:
    """Return key and value; None deletes."""
    key = {"kind": "quota", "entity": [list(pair) for pair in name.entity], "quota": name.quota}
    return _dump(key), None if written is None else _dump(written._asdict())


def _acl(k: dict[str, Any]) -> Acl:
    return Acl(
        int(k["resource_type"]),
        str(k["resource_name"]),
        int(k["pattern_type"]),
        str(k["principal"]),
        str(k["host"]),
        int(k["operation"]),
        int(k["permission"]),
    )


def _optional(value: Any) -> str | None:
    return None if value is None else str(value)


def _object(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(data)
    if found["version"] != RIGHTS_VERSION:
        raise MapFormatError(
            f"rights version {found['version']}; this reader knows {RIGHTS_VERSION}"
        )
    return found


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps({"version": RIGHTS_VERSION, **value}, separators=(",", ":")).encode()
