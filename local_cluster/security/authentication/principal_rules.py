"""`ssl.principal.mapping.rules` (KIP-371) map a certificate's subject to a principal's name. Pure.

Commas separate the rules. `DEFAULT` takes the subject as it is. `RULE:PATTERN/REPLACEMENT/[LU]`
takes a subject that PATTERN matches as a whole. REPLACEMENT has groups as `$1`; `L` and `U` ask for
lower or upper case. The first rule that matches decides, as in Kafka's SslPrincipalMapper.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

DEFAULT_RULES: Final = "DEFAULT"
_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|$)"
)
_REFERENCE: Final = re.compile(r"\\(?P<literal>.)|\$(?P<group>\d)")


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None takes the subject as it is."""
    replacement: str
    case: Literal["", "L", "U"]


class PrincipalRules:
    """The rules of one listener."""

    def __init__(self, text: str = DEFAULT_RULES) -> None:
        """Raises ValueError that names the rule that cannot be read."""
        self._rules = tuple(_parse(text.strip() or DEFAULT_RULES))

    def name_of(self, subject: str) -> str | None:
        """Return the name of the principal, or None if no rule matches."""
        for rule in self._rules:
            if rule.pattern is None:
                return subject
            found = rule.pattern.fullmatch(subject)
            if found is not None:
                name = _expand(rule.replacement, found)
                return {"L": name.lower(), "U": name.upper()}.get(rule.case, name)
        return None


def _parse(text: str) -> list[_Rule]:
    rules: list[_Rule] = []
    position = 0
    while position < len(text):
        found = _RULE.match(text, position)
        if found is None:
            raise ValueError(
                f"expected DEFAULT or RULE:pattern/replacement/[LU], not {text[position:]!r}"
            )
        position = found.end()
        if found["default"]:
            rules.append(_Rule(None, "", ""))
            continue
        try:
            pattern = re.compile(found["pattern"])
        except re.error as error:
            raise ValueError(f"pattern {found['pattern']!r}: {error}") from error
        case: Literal["", "L", "U"] = "L" if found["case"] == "L" else "U" if found["case"] else ""
        rules.append(_Rule(pattern, found["replacement"], case))
    return rules


def _expand(replacement: str, found: re.Match[str]) -> str:
    def value(reference: re.Match[str]) -> str:
        if reference["literal"] is not None:
            return reference["literal"]
        group = int(reference["group"])
        # Kafka keeps a reference to a group that the pattern lacks.
        return (found[group] or "") if group <= found.re.groups else reference[0]

    return _REFERENCE.sub(value, replacement)
