"""Bodies of the private requests by which SCRAM credentials follow along a link. Pure.

READ_STORED_CREDENTIALS and WRITE_STORED_CREDENTIALS, v0: a version byte and JSON. A response is
always an object with `error` (Kafka's code) and `message`.

    read   request   users: names, or null for all; with_keys: whether the keys are wanted
           response  credentials: list of user, mechanism, generation, keys (absent unless wanted);
                     guarded: those of the named or known users that links never touch
    write  request   changes: list of user, mechanism, expected, keys (null deletes)
           response  results: list of error and message, in the order of the changes

A generation tells a credential from the one before it. It is made of what a broker sends to
whoever begins a login, so it helps nobody to guess a password. `expected` is the generation that
is replaced, or null if there must be none. Keys are in Kafka's text (`scram_credentials`).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from local_cluster.foreign_json import integer, parse_object, string
from local_cluster.wire.constants import CredentialName

T = TypeVar("T")

VERSION: Final = 1
CREDENTIALS_MAX: Final = 1_000
"""Credentials in one request for keys, and changes in one request."""


class StoredKeys:
    """The text of a credential, which nothing prints."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text: Final = text

    def __repr__(self) -> str:
        return "StoredKeys(...)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoredKeys) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


class StoredCredential(NamedTuple):
    """A credential as a broker describes it."""

    generation: str
    keys: StoredKeys | None = None
    """None unless they were wanted."""


class StoredCredentials(NamedTuple):
    """The credentials of a cluster."""

    credentials: Mapping[CredentialName, StoredCredential]
    guarded: frozenset[str]
    """Users that links never touch."""


class CredentialChange(NamedTuple):
    """What becomes of one credential."""

    name: CredentialName
    expected: str | None
    """The generation that is replaced; None if there must be none."""
    keys: StoredKeys | None
    """None deletes."""


class Refusal(NamedTuple):
    """Why a request, or a change of it, was not done."""

    error: int
    message: str


class ReadRequest(NamedTuple):
    """The request for descriptions, or for keys."""

    users: tuple[str, ...] | None
    with_keys: bool


def generation_of(mechanism: str, salt: bytes, iterations: int) -> str:
    """Return the generation of a credential. Every new password has a new random salt."""
    text = f"{mechanism} {iterations} {salt.hex()}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:15]).decode()


def encode_read(request: ReadRequest) -> bytes:
    """Encode a request."""
    return _encode(request._asdict())


def decode_read(body: bytes) -> ReadRequest:
    """Decode a request. Raises ValueError."""

    def build(found: dict[str, Any]) -> ReadRequest:
        users = found["users"]
        names = None if users is None else tuple(string(each) for each in _list(users))
        return ReadRequest(names, found["with_keys"] is True)

    return _decode(body, build)


def encode_stored(stored: StoredCredentials) -> bytes:
    """Encode a response."""
    credentials = []
    for name, each in stored.credentials.items():
        entry = {**name._asdict(), "generation": each.generation}
        if each.keys is not None:
            entry["keys"] = each.keys.text
        credentials.append(entry)
    return _encode({**_NO_ERROR, "credentials": credentials, "guarded": sorted(stored.guarded)})


def decode_stored(body: bytes) -> StoredCredentials | Refusal:
    """Decode a response. Raises ValueError."""

    def build(found: dict[str, Any]) -> StoredCredentials | Refusal:
        if found["error"]:
            return _refusal(found)
        credentials = {
            _name(each): StoredCredential(
                string(each["generation"]),
                StoredKeys(string(each["keys"])) if "keys" in each else None,
            )
            for each in _list(found["credentials"])
        }
        return StoredCredentials(credentials, frozenset(map(string, _list(found["guarded"]))))

    return _decode(body, build)


def encode_changes(changes: Iterable[CredentialChange]) -> bytes:
    """Encode a request."""
    entries = [
        {
            **each.name._asdict(),
            "expected": each.expected,
            "keys": None if each.keys is None else each.keys.text,
        }
        for each in changes
    ]
    return _encode({"changes": entries})


def decode_changes(body: bytes) -> list[CredentialChange]:
    """Decode a request. Raises ValueError."""
    return _decode(
        body,
        lambda found: [
            CredentialChange(
                _name(each),
                None if each["expected"] is None else string(each["expected"]),
                None if each["keys"] is None else StoredKeys(string(each["keys"])),
            )
            for each in _list(found["changes"])
        ],
    )


def encode_results(results: Sequence[Refusal | None]) -> bytes:
    """Encode a response; None is a change that was done."""
    entries = [(each or Refusal(0, ""))._asdict() for each in results]
    return _encode({**_NO_ERROR, "results": entries})


def decode_results(body: bytes) -> list[Refusal | None] | Refusal:
    """Decode a response. Raises ValueError."""

    def build(found: dict[str, Any]) -> list[Refusal | None] | Refusal:
        if found["error"]:
            return _refusal(found)
        return [_refusal(each) if each["error"] else None for each in _list(found["results"])]

    return _decode(body, build)


def encode_refusal(error: int, message: str) -> bytes:
    """Encode the response to a request that is refused as a whole."""
    return _encode({"error": int(error), "message": message})


_NO_ERROR: Final = {"error": 0, "message": ""}


def _refusal(found: Mapping[str, Any]) -> Refusal:
    return Refusal(integer(found["error"], -1, 32_767), string(found["message"]))


def _name(entry: Mapping[str, Any]) -> CredentialName:
    return CredentialName(string(entry["user"]), string(entry["mechanism"]))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _encode(body: Mapping[str, Any]) -> bytes:
    return bytes((VERSION,)) + json.dumps(body, separators=(",", ":")).encode()


def _decode(body: bytes, build: Callable[[dict[str, Any]], T]) -> T:
    """Read a body. The error repeats nothing of it."""
    if body[:1] != bytes((VERSION,)):
        raise ValueError("an unknown version of a body of stored credentials")
    try:
        return build(parse_object(body[1:]))
    except (KeyError, TypeError, ValueError):
        raise ValueError("not a body of stored credentials") from None
