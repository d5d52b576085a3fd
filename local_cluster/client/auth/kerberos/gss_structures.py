"""SHELL: the structures and functions of MIT's GSSAPI library, as ctypes has them (RFC 2744)."""

from __future__ import annotations

import ctypes
from typing import Any, Final

GSS_LIBRARY: Final = "libgssapi_krb5.so.2"
"""In Debian's and Ubuntu's libgssapi-krb5-2, and in krb5-libs of others."""
UINT: Final = ctypes.c_uint32
HANDLE: Final = ctypes.c_void_p


class Buffer(ctypes.Structure):
    """gss_buffer_desc."""

    _fields_ = (("length", ctypes.c_size_t), ("value", ctypes.c_void_p))


class Oid(ctypes.Structure):
    """gss_OID_desc."""

    _fields_ = (("length", UINT), ("elements", ctypes.c_void_p))


class OidSet(ctypes.Structure):
    """gss_OID_set_desc."""

    _fields_ = (("count", ctypes.c_size_t), ("elements", ctypes.POINTER(Oid)))


class StoreEntry(ctypes.Structure):
    """gss_key_value_element_desc."""

    _fields_ = (("key", ctypes.c_char_p), ("value", ctypes.c_char_p))


class Store(ctypes.Structure):
    """gss_key_value_set_desc: where credentials are."""

    _fields_ = (("count", UINT), ("elements", ctypes.POINTER(StoreEntry)))


_UINTS: Final = ctypes.POINTER(UINT)
_HANDLES: Final = ctypes.POINTER(HANDLE)
_BUFFERS: Final = ctypes.POINTER(Buffer)
_OIDS: Final = ctypes.POINTER(Oid)
_OID_POINTERS: Final = ctypes.POINTER(_OIDS)
_INTS: Final = ctypes.POINTER(ctypes.c_int)

# Each function returns its major status, and writes its minor one to the first argument.
_ARGUMENTS: Final[dict[str, tuple[Any, ...]]] = {
    "gss_import_name": (_BUFFERS, _OIDS, _HANDLES),
    "gss_canonicalize_name": (HANDLE, _OIDS, _HANDLES),
    "gss_display_name": (HANDLE, _BUFFERS, _OID_POINTERS),
    "gss_release_name": (_HANDLES,),
    "gss_acquire_cred_from": (
        HANDLE,
        UINT,
        ctypes.POINTER(OidSet),
        ctypes.c_int,
        ctypes.POINTER(Store),
        _HANDLES,
        ctypes.c_void_p,
        _UINTS,
    ),
    "gss_release_cred": (_HANDLES,),
    "gss_accept_sec_context": (
        _HANDLES,
        HANDLE,
        _BUFFERS,
        ctypes.c_void_p,
        _HANDLES,
        _OID_POINTERS,
        _BUFFERS,
        _UINTS,
        _UINTS,
        ctypes.c_void_p,
    ),
    "gss_init_sec_context": (
        HANDLE,
        _HANDLES,
        HANDLE,
        _OIDS,
        UINT,
        UINT,
        ctypes.c_void_p,
        _BUFFERS,
        _OID_POINTERS,
        _BUFFERS,
        _UINTS,
        _UINTS,
    ),
    "gss_delete_sec_context": (_HANDLES, _BUFFERS),
    "gss_wrap": (HANDLE, ctypes.c_int, UINT, _BUFFERS, _INTS, _BUFFERS),
    "gss_unwrap": (HANDLE, _BUFFERS, _BUFFERS, _INTS, _UINTS),
    "gss_display_status": (UINT, ctypes.c_int, _OIDS, _UINTS, _BUFFERS),
    "gss_release_buffer": (_BUFFERS,),
}


def load_functions(name: str = GSS_LIBRARY) -> dict[str, Any]:
    """Return the functions by name. Raises OSError or AttributeError where one is missing."""
    library = ctypes.CDLL(name)
    found = {}
    for function, arguments in _ARGUMENTS.items():
        found[function] = getattr(library, function)
        found[function].argtypes = (_UINTS, *arguments)
        found[function].restype = UINT
    return found
