"""The entries of a broker's properties: which of them were read, remarks and secrets. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from topology.file.mm2_keys import Property, Remark


class BrokerKeys:
    """Lookup by key; a key of a listener holds as `listener.name.NAME.key`, else as `key`.

    The last entry of a key holds, as in Java.
    """

    def __init__(self, entries: Iterable[Property]) -> None:
        self._entries = {entry.key: entry for entry in entries}
        self._read: set[str] = set()
        self.remarks: list[Remark] = []
        self.secrets: dict[str, str] = {}
        """Secrets by the environment variable that the topology names."""

    @property
    def has_problems(self) -> bool:
        return any(remark.is_problem for remark in self.remarks)

    def has(self, key: str) -> bool:
        return key in self._entries

    def value(self, key: str) -> str | None:
        """Return the value of a key, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._read.add(key)
        if re.search(r"\$\{[^}]*:", entry.value):
            self.problem(key, "config providers (`${...}`) are not supported")
        return entry.value.strip()

    def of_listener(self, listener: str, key: str) -> tuple[str, str | None]:
        """Return the key as the file has it, and its value."""
        own = f"listener.name.{listener.lower()}.{key}"
        name = own if own in self._entries else key
        self.value(key)  # another listener may have it instead; it is no key without effect
        return name, self.value(name)

    def secret(self, key: str, secret: str) -> dict[str, str]:
        """Keep a secret, and return the place that the topology names for it."""
        variable = "HELIOGRAPH_" + re.sub(r"[^A-Z0-9]+", "_", key.upper()).strip("_")
        while self.secrets.get(variable, secret) != secret:
            variable += "_"
        self.secrets[variable] = secret
        return {"env": variable}

    def unread(self) -> list[str]:
        """Return the keys that were not read, in file order."""
        return [key for key in self._entries if key not in self._read]

    def remark(self, key: str, text: str, *, is_problem: bool = False) -> None:
        """Add a remark, once."""
        line = self._entries[key].line if key in self._entries else 1
        found = Remark(line, key, text, is_problem=is_problem)
        if found not in self.remarks:
            self.remarks.append(found)

    def problem(self, key: str, text: str) -> None:
        """Add a remark, once, that makes the file unusable."""
        self.remark(key, text, is_problem=True)
