"""The subject of a certificate as text, as Java's X500Principal.getName() writes it (RFC 2253).

Kafka's ACLs and `ssl.principal.mapping.rules` are written against exactly this text: the most
specific part first, no blanks after commas, and an attribute that RFC 2253 does not name as
`OID=#HEX` of its DER value.
"""

from __future__ import annotations

from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

_KEYWORDS: Final = {
    NameOID.COMMON_NAME: "CN",
    NameOID.COUNTRY_NAME: "C",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.LOCALITY_NAME: "L",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.USER_ID: "UID",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')


def subject_of(certificate_der: bytes) -> str:
    """Return the subject of a certificate. Raises ValueError for bytes that are none."""
    subject = x509.load_der_x509_certificate(certificate_der).subject
    return ",".join("+".join(map(_attribute, part)) for part in reversed(list(subject.rdns)))


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    keyword = _KEYWORDS.get(attribute.oid)
    if keyword is None or isinstance(attribute.value, bytes):
        name = keyword or attribute.oid.dotted_string
        return f"{name}=#{_value_der(attribute).hex()}"
    return f"{keyword}={_escape(attribute.value)}"


def _escape(value: str) -> str:
    escaped = "".join(f"\\{each}" if each in _ESCAPED else each for each in value)
    escaped = escaped.replace("\0", "\\00")
    blanks_before = len(escaped) - len(escaped.lstrip(" "))
    blanks_after = len(escaped) - len(escaped.rstrip(" "))
    if blanks_before == len(escaped):
        return "\\ " * blanks_before
    return (
        "\\ " * blanks_before
        + escaped[blanks_before : len(escaped) - blanks_after]
        + "\\ " * blanks_after
    )


def _value_der(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """Return the DER of the value: what follows the OID inside a name of this attribute alone."""
    encoded = x509.Name([attribute]).public_bytes()
    position = 0
    for _ in ("name", "set", "attribute"):
        position, _ = _content_of(encoded, position)
    _, end_of_oid = _content_of(encoded, position)
    return encoded[end_of_oid:]


def _content_of(encoded: bytes, position: int) -> tuple[int, int]:
    """Return where the content of the DER element at `position` starts and ends."""
    size = encoded[position + 1]
    start = position + 2
    if size & 0x80:
        octets = size & 0x7F
        size = int.from_bytes(encoded[start : start + octets], "big")
        start += octets
    return start, start + size
