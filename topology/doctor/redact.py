"""Takes secrets out of texts. Pure.

Replaced are:

- values that are known to be secrets
- values under a name that may hold a secret
- credentials in URLs and JAAS lines

What names a secret's file or variable stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, Final

from topology.admin.config_rows import HIDDEN, is_secret_name

SECRET_CHARACTERS_MIN: Final = 4
"""A shorter secret would be replaced within words that have nothing to do with it."""
_ASSIGNED: Final = re.compile(
    # Only at the start of a word: at each letter of a long word, a search takes quadratic time.
    r"""(?P<name>(?<![\w.-])["']?[\w.-]*(?:password|secret|passphrase|token)[\w.-]*["']?\s*[:=]\s*)"""
    r"""(?P<value>"[^"]*"|'[^']*'|[^\s,;}{]+)""",
    re.IGNORECASE,
)
_IN_URL: Final = re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
_PEM: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_PLACES: Final = frozenset({"file", "env"})
"""Keys of a secret that say where it is."""


def redact_text(text: str, secrets: Collection[str]) -> str:
    """Return a text of any form, such as a log, without secrets."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SECRET_CHARACTERS_MIN:
            text = text.replace(secret, HIDDEN)
    text = _PEM.sub(HIDDEN, text)
    text = _IN_URL.sub(HIDDEN, text)
    return _ASSIGNED.sub(_assigned, text)


def _assigned(found: re.Match[str]) -> str:
    if found["value"].strip("\"'") in ("null", "None", "", HIDDEN, HIDDEN.split()[0]):
        return found[0]
    return f"{found['name']}{HIDDEN}"


def redact_document(value: Any, secrets: Collection[str]) -> Any:
    """Return plain values without secrets. `password: {file: ...}` stays, for it holds none."""
    if isinstance(value, dict):
        return {
            key: HIDDEN
            if is_secret_name(str(key)) and not _is_harmless(each)
            else redact_document(each, secrets)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [redact_document(each, secrets) for each in value]
    if isinstance(value, str):
        return _redact_string(value, secrets)
    return value


def _is_harmless(value: Any) -> bool:
    is_place = isinstance(value, dict) and value.keys() <= _PLACES
    return value is None or isinstance(value, bool | int) or is_place


def _redact_string(value: str, secrets: Collection[str]) -> str:
    """Return a string without secrets; one that holds JSON is redacted as such."""
    if value[:1] in ("{", "["):
        try:
            document = json.loads(value)
        except ValueError:
            return redact_text(value, secrets)
        return json.dumps(redact_document(document, secrets))
    return redact_text(value, secrets)
