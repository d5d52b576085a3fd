"""The entries of a broker's properties: those of listeners, and secrets. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from topology.file.property_keys import Property, PropertyKeys


class BrokerKeys(PropertyKeys):
    """Lookup by key; a key of a listener holds as `listener.name.NAME.key`, else as `key`."""

    def __init__(self, entries: Iterable[Property]) -> None:
        super().__init__(entries)
        self.secrets: dict[str, str] = {}
        """Secrets by the environment variable that the topology names."""

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
