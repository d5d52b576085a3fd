"""The ACLs, quotas and users that a link wrote on its target, for it and for links beyond. Pure.

Topic: `heliograph-rights.<link>.internal` on the target, one partition, compacted. It exists if the
link carries ACLs of groups or transactional ids, quotas or SCRAM users. Key and value are JSON
objects; both carry `"version": 1`. Keys have a `kind`:

    acl    key    resource_type, resource_name, pattern_type, principal, host, operation,
                  permission; what Kafka numbers is a number
    quota  key    entity: a list of [type, name], null for the default; quota: its name
           value  before, wanted: numbers; `before` is null if there was no quota
    user   key    user, mechanism
           value  before, wanted: generations of credentials, which hold no secret
                  (`scram_transfer`); `before` is null if there was no credential

A record is written before the ACL or quota itself. So whatever the link wrote has a record, also
after a kill. The target may refuse the change, so the quota before it counts too. A record is
deleted in a later round than its ACL or quota. So a reader that saw the entry finds its record.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from local_cluster.foreign_json import integer, string
from local_cluster.wire.constants import Acl, CredentialName
from mirror_maker.formats.fields import MapFormatError, versioned_object

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


class WrittenCredential(NamedTuple):
    """The generations of a SCRAM credential that the link wrote."""

    before: str | None
    """The link's generation before the last change; None if there was none."""
    wanted: str

    def explains(self, generation: str) -> bool:
        """Return whether the link may have written this generation."""
        return generation in (self.before, self.wanted)


class WrittenRights:
    """The state that the records of one topic amount to."""

    def __init__(self) -> None:
        self.acls: set[Acl] = set()
        self.quotas: dict[QuotaName, WrittenQuota] = {}
        self.users: dict[CredentialName, WrittenCredential] = {}

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Take in the next record of the topic; a null value deletes. Raises MapFormatError.

        A record that is refused changes nothing.
        """
        if key is None:
            raise MapFormatError("a record without a key")
        try:
            k = versioned_object(key, "rights", RIGHTS_VERSION)
            v = None if value is None else versioned_object(value, "rights", RIGHTS_VERSION)
            self._replay(k, v)
        except (KeyError, TypeError, ValueError) as error:
            raise MapFormatError(f"not a record of rights: {error}") from error

    def _replay(self, k: dict[str, Any], v: dict[str, Any] | None) -> None:
        match k["kind"]:
            case "acl":
                acl = _acl(k)
                self.acls.discard(acl)
                if v is not None:
                    self.acls.add(acl)
            case "quota":
                entity = tuple((string(kind), _optional(name)) for kind, name in k["entity"])
                name = QuotaName(entity, string(k["quota"]))
                written = None if v is None else _written(v)
                self.quotas.pop(name, None)
                if written is not None:
                    self.quotas[name] = written
            case "user":
                user = CredentialName(string(k["user"]), string(k["mechanism"]))
                credential = (
                    None
                    if v is None
                    else WrittenCredential(_optional(v["before"]), string(v["wanted"]))
                )
                self.users.pop(user, None)
                if credential is not None:
                    self.users[user] = credential
            case kind:
                raise MapFormatError(f"unknown kind of record {string(kind)[:40]!r}")


def acl_record(acl: Acl, *, is_deleted: bool = False) -> Record:
    """Return key and value."""
    return _dump({"kind": "acl", **acl._asdict()}), None if is_deleted else _dump({})


def quota_record(name: QuotaName, written: WrittenQuota | None) -> Record:
    """Return key and value; None deletes."""
    key = {"kind": "quota", "entity": [list(pair) for pair in name.entity], "quota": name.quota}
    return _dump(key), None if written is None else _dump(written._asdict())


def user_record(name: CredentialName, written: WrittenCredential | None) -> Record:
    """Return key and value; None deletes."""
    key = {"kind": "user", **name._asdict()}
    return _dump(key), None if written is None else _dump(written._asdict())


def _acl(k: dict[str, Any]) -> Acl:
    return Acl(
        integer(k["resource_type"]),
        string(k["resource_name"]),
        integer(k["pattern_type"]),
        string(k["principal"]),
        string(k["host"]),
        integer(k["operation"]),
        integer(k["permission"]),
    )


def _written(v: dict[str, Any]) -> WrittenQuota:
    before = v["before"]
    return WrittenQuota(None if before is None else _value(before), _value(v["wanted"]))


def _value(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MapFormatError("the value of a quota is no number")
    try:
        return float(value)
    except OverflowError:
        raise MapFormatError("the value of a quota is too large") from None


def _optional(value: Any) -> str | None:
    return None if value is None else string(value)


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps({"version": RIGHTS_VERSION, **value}, separators=(",", ":")).encode()
