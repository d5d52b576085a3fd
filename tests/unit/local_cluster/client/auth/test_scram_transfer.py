"""The bodies of requests for stored credentials."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.client.auth.scram_transfer import (
    VERSION,
    CredentialChange,
    ReadRequest,
    Refusal,
    StoredCredential,
    StoredCredentials,
    StoredKeys,
    decode_changes,
    decode_read,
    decode_results,
    decode_stored,
    encode_changes,
    encode_read,
    encode_refusal,
    encode_results,
    encode_stored,
    generation_of,
)
from local_cluster.wire.constants import CredentialName

NAME = CredentialName("al\u00efce", "SCRAM-SHA-512")
KEYS = StoredKeys("salt=c2VjcmV0")
DECODERS = (decode_read, decode_stored, decode_changes, decode_results)


def test_bodies_are_read_as_they_were_written() -> None:
    for request in (ReadRequest(None, False), ReadRequest(("a", "b"), True)):
        assert decode_read(encode_read(request)) == request
    stored = StoredCredentials(
        {NAME: StoredCredential("g", KEYS), NAME._replace(user="b"): StoredCredential("h")},
        frozenset({"admin"}),
    )
    assert decode_stored(encode_stored(stored)) == stored
    changes = [CredentialChange(NAME, None, KEYS), CredentialChange(NAME, "g", None)]
    assert decode_changes(encode_changes(changes)) == changes
    results = [None, Refusal(95, "somebody else")]
    assert decode_results(encode_results(results)) == results
    refusal = encode_refusal(31, "no")
    assert decode_stored(refusal) == decode_results(refusal) == Refusal(31, "no")


def test_keys_are_never_printed() -> None:
    change = CredentialChange(NAME, None, KEYS)
    stored = StoredCredential("g", KEYS)
    assert "c2VjcmV0" not in f"{change} {stored!r} {KEYS} {[KEYS]}"


def test_a_generation_holds_no_secret_and_changes_with_salt_iterations_and_mechanism() -> None:
    first = generation_of("SCRAM-SHA-512", b"salt", 4096)
    others = [
        generation_of("SCRAM-SHA-512", b"salts", 4096),
        generation_of("SCRAM-SHA-512", b"salt", 8192),
        generation_of("SCRAM-SHA-256", b"salt", 4096),
    ]
    assert len({first, *others}) == 4
    assert generation_of("SCRAM-SHA-512", b"salt", 4096) == first


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x02{}",
        b"\x01",
        b"\x01[]",
        b"\x01{}",
        b'\x01{"users":7,"with_keys":true,"changes":7,"error":0,"credentials":7,"results":7}',
        b'\x01{"users":[7],"changes":["x"],"error":0,"credentials":["x"],"results":["x"]}',
        b"\x01" + b"[" * 100_000,
    ],
)
def test_other_bodies_are_refused_without_repeating_them(decode: object, body: bytes) -> None:
    assert callable(decode)
    with pytest.raises(ValueError) as caught:
        decode(body)
    assert caught.value.__cause__ is None
    assert len(str(caught.value)) < 60


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
FIELDS = ("users", "with_keys", "changes", "error", "message", "credentials", "guarded", "results")


@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(), JSON))
def test_any_object_is_read_or_refused(document: dict[str, object]) -> None:
    body = bytes((VERSION,)) + json.dumps(document).encode()
    for decode in DECODERS:
        try:
            decode(body)
        except ValueError:
            continue
