"""SHELL: names, credentials and security contexts of the system's GSSAPI library (MIT krb5).

Who owns what: a name, a credential and a context belong to one `_Handle`, which releases it when
nobody refers to it any more. So none is released under a call that runs in another thread. What the
library returns in a buffer is copied, and the buffer released at once. Calls block: they read files
and may ask a key distribution centre, but they let other threads run.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from local_cluster.client.auth.kerberos.gss_structures import (
    GSS_LIBRARY,
    HANDLE,
    UINT,
    Buffer,
    Oid,
    OidSet,
    Store,
    StoreEntry,
    load_functions,
)
from local_cluster.client.auth.kerberos.security_context import GssError

TOKEN_BYTES_MAX: Final = 64 * 1024
"""Of a token or a message, either way."""
NAME_BYTES_MAX: Final = 1_024
STATUS_TEXTS_MAX: Final = 4
"""Messages of one status that are read."""
STATUS_CHARS_MAX: Final = 200

_CONTINUE_NEEDED: Final = 1
_ERROR_BITS: Final = 0xFFFF_0000
_OF_GSS, _OF_MECHANISM = 1, 2
_INITIATE, _ACCEPT = 1, 2
_MUTUAL, _REPLAY, _SEQUENCE, _INTEGRITY, _ANONYMOUS = 2, 4, 8, 32, 64
_INDEFINITE: Final = 0xFFFF_FFFF


class GssUnavailableError(GssError):
    """The library is missing, or too old."""


class _Bytes:
    """Bytes as an argument; they live as long as this."""

    def __init__(self, content: bytes) -> None:
        if len(content) > TOKEN_BYTES_MAX:
            raise GssError(f"more than {TOKEN_BYTES_MAX} bytes")
        self._held = ctypes.create_string_buffer(content, len(content))
        self.buffer = Buffer(len(content), ctypes.addressof(self._held))


class _Oid:
    """An object identifier as an argument; it lives as long as the process."""

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded
        self._held = ctypes.create_string_buffer(encoded, len(encoded))
        self.value = Oid(len(encoded), ctypes.addressof(self._held))


_KERBEROS: Final = _Oid(bytes.fromhex("2a864886f712010202"))
_HOSTBASED_SERVICE: Final = _Oid(bytes.fromhex("2a864886f71201020104"))
_PRINCIPAL_NAME: Final = _Oid(bytes.fromhex("2a864886f71201020201"))


def _printable(text: str) -> str:
    """Return a text for a log. The library repeats names that anybody may have sent."""
    return "".join(each if each.isprintable() else "?" for each in text[:STATUS_CHARS_MAX])


def _release(function: Callable[..., int], pointer: ctypes.c_void_p, *more: None) -> None:
    if pointer.value:
        function(UINT(), pointer, *more)


class _Handle:
    """What the library has made; released with this object."""

    def __init__(self, function: Callable[..., int], *more: None) -> None:
        self.pointer = HANDLE()
        weakref.finalize(self, _release, function, self.pointer, *more).atexit = False


class GssLibrary:
    """The library; each method raises GssError."""

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self._functions = functions

    def default_realm(self) -> str:
        """Return the realm of names that have none, by krb5.conf; "" if there is none."""
        name, full = self.principal("x"), self.handle("gss_release_name")
        try:
            self.call("gss_canonicalize_name", name.pointer, _KERBEROS.value, full.pointer)
            return self.display(full).rpartition("@")[2]
        except GssError:
            return ""

    def service(self, name: str) -> _Handle:
        """Return a service ("kafka", on any host), or one on a host ("kafka@host")."""
        return self._name(name, _HOSTBASED_SERVICE)

    def principal(self, name: str) -> _Handle:
        """Return a principal, such as kafka/host@EXAMPLE.COM."""
        return self._name(name, _PRINCIPAL_NAME)

    def display(self, name: _Handle) -> str:
        """Return a name as text. The library has a backslash before a special character."""
        output = Buffer()
        _, found = self.written("gss_display_name", output, name.pointer, output, None)
        if len(found) > NAME_BYTES_MAX:
            raise GssError(f"a name of more than {NAME_BYTES_MAX} bytes")
        try:
            return found.decode()
        except UnicodeDecodeError:
            raise GssError("a name that is not UTF-8") from None

    def acceptor(self, name: _Handle, keytab_file: str) -> _Handle:
        """Return the keys of a service."""
        return self._credential(name, _ACCEPT, {"keytab": f"FILE:{keytab_file}"})

    def initiator(self, name: _Handle, keytab_file: str, cache_name: str) -> _Handle:
        """Return a client with its key; its tickets are in the cache."""
        places = {"client_keytab": f"FILE:{keytab_file}", "ccache": cache_name}
        return self._credential(name, _INITIATE, places)

    def accept(self, credential: _Handle) -> AcceptedContext:
        """Begin the context of a client that connects."""
        return AcceptedContext(self, credential)

    def initiate(self, credential: _Handle, target: _Handle) -> InitiatedContext:
        """Begin the context with a service."""
        return InitiatedContext(self, credential, target)

    def call(self, name: str, *arguments: Any) -> int:
        """Call a function, and return its major status if it succeeds."""
        minor = UINT()
        major = int(self._functions[name](minor, *arguments))
        if major & _ERROR_BITS:
            # The library keeps the text of a minor status for the thread that got it.
            texts = self._texts(major, _OF_GSS)
            if minor.value:
                texts += self._texts(minor.value, _OF_MECHANISM)
            raise GssError(f"{name}: {': '.join(texts)}", minor.value)
        return major

    def written(self, name: str, output: Buffer, *arguments: Any) -> tuple[int, bytes]:
        """As `call`, with what the function has written to `output`, which is one argument."""
        try:
            major = self.call(name, *arguments)
        finally:
            content = self._copied(output)
        return major, content

    def _copied(self, buffer: Buffer) -> bytes:
        """Return what the library has written, and release it."""
        try:
            if buffer.length > TOKEN_BYTES_MAX:
                raise GssError(f"more than {TOKEN_BYTES_MAX} bytes")
            return ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""
        finally:
            self._functions["gss_release_buffer"](UINT(), buffer)

    def handle(self, release: str, *more: None) -> _Handle:
        """Return a handle that is empty yet."""
        return _Handle(self._functions[release], *more)

    def _name(self, name: str, kind: _Oid) -> _Handle:
        made = self.handle("gss_release_name")
        text = _Bytes(name.encode())
        self.call("gss_import_name", text.buffer, kind.value, made.pointer)
        return made

    def _credential(self, name: _Handle, usage: int, places: Mapping[str, str]) -> _Handle:
        made = self.handle("gss_release_cred")
        entries = (StoreEntry * len(places))(
            *(StoreEntry(key.encode(), value.encode()) for key, value in places.items())
        )
        # Only Kerberos: SPNEGO would let a client choose another mechanism.
        kerberos = OidSet(1, ctypes.pointer(_KERBEROS.value))
        store = Store(len(places), entries)
        self.call(
            "gss_acquire_cred_from",
            *(name.pointer, _INDEFINITE, kerberos, usage, store, made.pointer, None, None),
        )
        return made

    def _texts(self, status: int, kind: int) -> list[str]:
        texts: list[str] = []
        more = UINT()
        for _ in range(STATUS_TEXTS_MAX):
            output = Buffer()
            oid = _KERBEROS.value if kind == _OF_MECHANISM else None
            function = self._functions["gss_display_status"]
            if function(UINT(), status, kind, oid, more, output) & _ERROR_BITS:
                break
            texts.append(_printable(self._copied(output).decode(errors="replace")))
            if not more.value:
                break
        return texts or [f"status {status}"]


class _Context:
    """A security context, established or not yet."""

    def __init__(self, library: GssLibrary, credential: _Handle) -> None:
        self._library = library
        self._credential = credential
        self._handle = library.handle("gss_delete_sec_context", None)
        self.is_complete = False

    def wrap(self, message: bytes) -> bytes:
        """Sign a message; it is not encrypted."""
        content, output = _Bytes(message), Buffer()
        pointer = self._handle.pointer
        _, signed = self._library.written(
            "gss_wrap", output, pointer, 0, 0, content.buffer, None, output
        )
        return signed

    def unwrap(self, message: bytes) -> bytes:
        """Return a message that the other side has signed."""
        content, output = _Bytes(message), Buffer()
        pointer = self._handle.pointer
        major, found = self._library.written(
            "gss_unwrap", output, pointer, content.buffer, output, None, None
        )
        if major:
            raise GssError(f"gss_unwrap: a message out of order (status {major})")
        return found


class AcceptedContext(_Context):
    """The broker's side."""

    def __init__(self, library: GssLibrary, credential: _Handle) -> None:
        super().__init__(library, credential)
        self.peer = ""

    def step(self, token: bytes) -> bytes:
        """Take a token of the client, and return the next one."""
        content, output = _Bytes(token), Buffer()
        name = self._library.handle("gss_release_name")
        mechanism, flags = ctypes.POINTER(Oid)(), UINT()
        major, answer = self._library.written(
            *("gss_accept_sec_context", output),
            *(self._handle.pointer, self._credential.pointer, content.buffer, None),
            *(name.pointer, mechanism, output, flags, None, None),
        )
        self.is_complete = not major & _CONTINUE_NEEDED
        if self.is_complete:
            found = mechanism.contents
            if ctypes.string_at(found.elements, found.length) != _KERBEROS.encoded:
                raise GssError("another mechanism than Kerberos")
            if flags.value & _ANONYMOUS:
                raise GssError("an anonymous client")
            self.peer = self._library.display(name)
        return answer


class InitiatedContext(_Context):
    """The client's side; it demands that the service proves itself too."""

    def __init__(self, library: GssLibrary, credential: _Handle, target: _Handle) -> None:
        super().__init__(library, credential)
        self._target = target
        self.peer = library.display(target)

    def step(self, token: bytes) -> bytes:
        """Take a token of the service, empty at first, and return the next one."""
        content, output = _Bytes(token), Buffer()
        flags = UINT()
        asked = _MUTUAL | _REPLAY | _SEQUENCE | _INTEGRITY
        major, answer = self._library.written(
            *("gss_init_sec_context", output),
            *(self._credential.pointer, self._handle.pointer, self._target.pointer),
            *(_KERBEROS.value, asked, 0, None, content.buffer, None, output, flags, None),
        )
        self.is_complete = not major & _CONTINUE_NEEDED
        if self.is_complete and asked & ~flags.value:
            raise GssError("the service does not prove itself, or messages are not signed")
        return answer


@cache
def gss_library() -> GssLibrary:
    """Return the system's library. Raises GssUnavailableError."""
    try:
        return GssLibrary(load_functions())
    except (OSError, AttributeError) as error:
        raise GssUnavailableError(
            f"GSSAPI needs MIT's {GSS_LIBRARY} (Debian, Ubuntu: libgssapi-krb5-2; Fedora, Alpine: "
            f"krb5-libs): {error}"
        ) from error
