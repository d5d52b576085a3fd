"""The binding of GSSAPI with functions that are played: what is released, bounded and refused."""

from __future__ import annotations

import ctypes
import gc
from collections import Counter
from typing import Any

import pytest

from local_cluster.client.auth.kerberos import gss_library
from local_cluster.client.auth.kerberos.gss_library import (
    STATUS_CHARS_MAX,
    TOKEN_BYTES_MAX,
    AcceptedContext,
    GssLibrary,
    GssUnavailableError,
)
from local_cluster.client.auth.kerberos.gss_structures import load_functions
from local_cluster.client.auth.kerberos.security_context import GssError

FAILURE, CONTINUE, DUPLICATE = 13 << 16, 1, 2
KERBEROS = bytes.fromhex("2a864886f712010202")
SPNEGO = bytes.fromhex("2b0601050502")


class PlayedFunctions:
    """The library's functions; each object and buffer that they make is counted."""

    def __init__(self) -> None:
        self.alive: Counter[str] = Counter()
        self.status = 0
        self.minor = 0
        self.output = b"token"
        self.name = b"alice@REALM"
        self.mechanism = KERBEROS
        self.flags = 0
        self.told = b"said\nthe library"
        self._held: list[Any] = []

    def functions(self) -> dict[str, Any]:
        names = (
            *("import_name", "display_name", "release_name", "acquire_cred_from", "release_cred"),
            *("accept_sec_context", "delete_sec_context", "unwrap", "wrap", "display_status"),
            "release_buffer",
        )
        return {f"gss_{name}": getattr(self, name) for name in names}

    def _make(self, kind: str, pointer: Any) -> None:
        pointer.value = 1
        self.alive[kind] += 1

    def _write(self, buffer: Any, content: bytes) -> None:
        held = ctypes.create_string_buffer(content, len(content))
        self._held.append(held)
        buffer.length, buffer.value = len(content), ctypes.addressof(held)
        self.alive["buffer"] += 1

    def release_buffer(self, minor: Any, buffer: Any) -> int:
        if buffer.value:
            self.alive["buffer"] -= 1
        return 0

    def import_name(self, minor: Any, text: Any, kind: Any, name: Any) -> int:
        self._make("name", name)
        return self.status

    def release_name(self, minor: Any, name: Any) -> int:
        self.alive["name"] -= 1
        return 0

    def display_name(self, minor: Any, name: Any, output: Any, kind: Any) -> int:
        self._write(output, self.name)
        return 0

    def acquire_cred_from(self, minor: Any, *arguments: Any) -> int:
        self._make("credential", arguments[5])
        return self.status

    def release_cred(self, minor: Any, credential: Any) -> int:
        self.alive["credential"] -= 1
        return 0

    def accept_sec_context(self, minor: Any, context: Any, *arguments: Any) -> int:
        if not context.value:
            self._make("context", context)
        _, _, _, name, mechanism, output, flags, _, _ = arguments
        self._make("name", name)
        held = ctypes.create_string_buffer(self.mechanism, len(self.mechanism))
        self._held.append(held)
        mechanism.contents = type(mechanism)._type_(len(self.mechanism), ctypes.addressof(held))
        flags.value = self.flags
        self._write(output, self.output)
        minor.value = self.minor
        return self.status

    def delete_sec_context(self, minor: Any, context: Any, output: None) -> int:
        self.alive["context"] -= 1
        return 0

    def wrap(self, minor: Any, context: Any, *arguments: Any) -> int:
        self._write(arguments[-1], self.output)
        return self.status

    def unwrap(self, minor: Any, context: Any, message: Any, output: Any, *more: Any) -> int:
        self._write(output, self.output)
        return self.status

    def display_status(self, minor: Any, *arguments: Any) -> int:
        arguments[3].value = 1  # there is always one more
        self._write(arguments[4], self.told)
        return 0


@pytest.fixture
def played() -> PlayedFunctions:
    return PlayedFunctions()


def context_of(played: PlayedFunctions) -> AcceptedContext:
    library = GssLibrary(played.functions())
    return library.accept(library.acceptor(library.service("kafka"), "/keytab"))


def test_everything_is_released_once(played: PlayedFunctions) -> None:
    context = context_of(played)
    assert (context.step(b"token"), context.is_complete) == (b"token", True)
    assert context.peer == "alice@REALM"
    context.wrap(b"x")
    context.unwrap(b"x")
    assert played.alive["context"] == 1
    del context
    gc.collect()
    assert set(played.alive.values()) == {0}


@pytest.mark.parametrize("status", [FAILURE, CONTINUE, DUPLICATE])
def test_nothing_is_left_of_what_fails(played: PlayedFunctions, status: int) -> None:
    context = context_of(played)
    played.status = status
    for call in (context.step, context.unwrap, context.wrap):
        try:
            call(b"x")
        except GssError:
            assert status != CONTINUE or call == context.unwrap
    assert played.alive["buffer"] == 0
    assert not context.is_complete or status == DUPLICATE
    del context, call
    gc.collect()
    assert set(played.alive.values()) == {0}


def test_a_context_that_needs_more_has_no_peer(played: PlayedFunctions) -> None:
    context = context_of(played)
    played.status = CONTINUE
    context.step(b"x")
    assert (context.is_complete, context.peer) == (False, "")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mechanism": SPNEGO}, "another mechanism than Kerberos"),
        ({"flags": 64}, "an anonymous client"),
        ({"name": b"\xff@REALM"}, "not UTF-8"),
        ({"name": 2_000 * b"x"}, "a name of more than 1024 bytes"),
        ({"output": (TOKEN_BYTES_MAX + 1) * b"x"}, "more than 65536 bytes"),
    ],
)
def test_what_the_library_lets_pass_is_refused(
    played: PlayedFunctions, changes: dict[str, Any], said: str
) -> None:
    context = context_of(played)
    vars(played).update(changes)
    with pytest.raises(GssError, match=said):
        context.step(b"x")
    assert played.alive["buffer"] == 0


def test_messages_out_of_order_are_refused(played: PlayedFunctions) -> None:
    context = context_of(played)
    played.status = DUPLICATE
    with pytest.raises(GssError, match="out of order"):
        context.unwrap(b"x")


def test_a_message_that_is_too_long_does_not_reach_the_library(played: PlayedFunctions) -> None:
    with pytest.raises(GssError, match="more than 65536 bytes"):
        context_of(played).step((TOKEN_BYTES_MAX + 1) * b"x")


def test_errors_are_bounded_lines_with_the_librarys_words(played: PlayedFunctions) -> None:
    context = context_of(played)
    played.status, played.minor = FAILURE, 7
    with pytest.raises(GssError) as caught:
        context.step(b"x")
    assert str(caught.value).startswith("gss_accept_sec_context: said?the library: ")
    assert "\n" not in str(caught.value)
    played.told = 10_000 * b"x"
    with pytest.raises(GssError) as caught:
        context.step(b"x")
    assert len(str(caught.value)) < 10 * STATUS_CHARS_MAX


def test_a_machine_without_the_library_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gss_library.gss_library.cache_clear()
    monkeypatch.setattr(gss_library, "load_functions", lambda: load_functions("libnone.so.9"))
    with pytest.raises(GssUnavailableError, match=r"libgssapi-krb5-2.*libnone\.so\.9"):
        gss_library.gss_library()
