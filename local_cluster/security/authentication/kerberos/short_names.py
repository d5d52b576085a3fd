"""`sasl.kerberos.principal.to.local.rules`: from a Kerberos principal to a user's name. Pure.

`DEFAULT` takes the first component of a principal of the default realm.
`RULE:[N:FORMAT](MATCH)s/FROM/TO/g/L` takes a principal of N components. FORMAT makes a text of the
realm (`$0`) and the components (`$1`, `$2`), and MATCH must match it as a whole. The first FROM in
it becomes TO, with `g` every one; `L` and `U` ask for lower or upper case. All but `[N:FORMAT]` may
be missing. The first rule that applies decides, as in Kafka's KerberosShortNamer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

DEFAULT_RULE: Final = "DEFAULT"
RULE_CHARS_MAX: Final = 1_024

_PRINCIPAL: Final = re.compile(r"(?P<first>[^/@]*)(?:/(?P<host>[^/@]*))?@(?P<realm>[^/@]*)")
_RULE: Final = re.compile(
    r"DEFAULT|RULE:\[(?P<count>[0-9]*):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?P<change>s/(?P<start>[^/]*)/(?P<end>[^/]*)/(?P<repeat>g)?)?/?(?P<case>[LU])?"
)
_PARAMETER: Final = re.compile(r"\$(?P<number>[0-9]*)")
_NOT_SIMPLE: Final = re.compile(r"[/@]")
_REFERENCE: Final = re.compile(r"\\(?P<literal>.)|\$(?P<group>[0-9]+)|[\\$]", re.DOTALL)


class NoShortNameError(Exception):
    """No rule has a name for a principal."""


class _Rule(NamedTuple):
    text: str
    components: int
    format: str
    match: re.Pattern[str] | None
    start: re.Pattern[str] | None
    end: str
    """A template of `re.Match.expand`."""
    repeats: bool
    case: str


class ShortNames:
    """The rules of one listener."""

    def __init__(self, rules: Sequence[str], default_realm: str = "") -> None:
        """Raises ValueError that names the rule that cannot be read."""
        self._rules = tuple(None if rule == DEFAULT_RULE else _parse(rule) for rule in rules)
        self._default_realm = default_realm

    def name_of(self, principal: str) -> str:
        """Return the user's name. Raises NoShortNameError."""
        found = _PRINCIPAL.fullmatch(principal)
        if found is None:
            raise NoShortNameError(f"{principal!r} is not FIRST@REALM or FIRST/HOST@REALM")
        parts = [found["realm"], found["first"]]
        if found["host"] is not None:
            parts.append(found["host"])
        for rule in self._rules:
            if rule is None:
                name = parts[1] if parts[0] == self._default_realm else None
            else:
                name = _apply(rule, parts)
            if name is None:
                continue
            if not name or _NOT_SIMPLE.search(name):
                raise NoShortNameError(
                    f"{principal} becomes {name!r}, which is no simple name, by "
                    f"{DEFAULT_RULE if rule is None else rule.text}"
                )
            case = "" if rule is None else rule.case
            return {"L": name.lower(), "U": name.upper()}.get(case, name)
        raise NoShortNameError(
            f"no rule of sasl.kerberos.principal.to.local.rules takes {principal}"
        )


def _apply(rule: _Rule, parts: list[str]) -> str | None:
    if len(parts) - 1 != rule.components:
        return None
    base = _PARAMETER.sub(lambda found: parts[int(found["number"])], rule.format)
    if rule.match is not None and rule.match.fullmatch(base) is None:
        return None
    if rule.start is None:
        return base
    return rule.start.sub(lambda found: found.expand(rule.end), base, 0 if rule.repeats else 1)


def _parse(text: str) -> _Rule:
    found = _RULE.fullmatch(text)
    if found is None or len(text) > RULE_CHARS_MAX:
        raise ValueError(f"expected DEFAULT or RULE:[n:format](match)s/from/to/g/L, not {text!r}")
    if not found["count"]:
        raise ValueError(f"rule {text!r} needs the number of components before the colon")
    count = int(found["count"])
    for parameter in _PARAMETER.finditer(found["format"]):
        if not parameter["number"] or int(parameter["number"]) > count:
            raise ValueError(f"rule {text!r}: {parameter[0]} is none of $0 to ${count}")
    try:
        match = None if found["match"] is None else re.compile(found["match"])
        start = None if found["change"] is None else re.compile(found["start"])
    except re.error as error:
        raise ValueError(f"rule {text!r}: {error}") from error
    groups = 0 if start is None else start.groups
    end = _template(found["end"] or "", groups, text)
    return _Rule(
        text, count, found["format"], match, start, end, bool(found["repeat"]), found["case"] or ""
    )


def _template(replacement: str, groups: int, rule: str) -> str:
    """Return Java's replacement as one of Python's."""

    def translated(found: re.Match[str]) -> str:
        if found["literal"] is not None:
            return r"\\" if found["literal"] == "\\" else found["literal"]
        digits = found["group"]
        if not digits or int(digits[0]) > groups:
            raise ValueError(f"rule {rule!r}: {found[0]!r} in the replacement is no group")
        # As in Java, further digits count only while there is such a group.
        size = max(n for n in range(1, len(digits) + 1) if int(digits[:n]) <= groups)
        return rf"\g<{digits[:size]}>{digits[size:]}"

    return _REFERENCE.sub(translated, replacement)
