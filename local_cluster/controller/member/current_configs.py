"""The broker configs that this broker uses at this moment, as a mapping. Pure.

A value comes from the dynamic config of this broker, else from that of all brokers, else from the
settings file. Dynamic values change with the metadata; a reader sees the change at its next look.
Values that are not valid, which only an outside tool can write, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from local_cluster.controller.decisions.dynamic_broker_configs import DEFAULT_ENTITY, valid_configs
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.log.config.description import BrokerSources
from local_cluster.settings import BrokerSettings
from local_cluster.wire.constants import ConfigSource

_NOTHING: Final[Mapping[str, str]] = {}


class CurrentConfigs(Mapping[str, str]):
    """Reads the settings and the metadata of one broker; holds no state of its own but a cache."""

    def __init__(self, settings: BrokerSettings, metadata: MetadataCache) -> None:
        self._settings = settings
        self._metadata = metadata
        self._seen: object = None
        self._values: Mapping[str, str] = _NOTHING
        self._sources: BrokerSources = ()

    @property
    def sources(self) -> BrokerSources:
        """The configs by where they come from, the first source wins."""
        self._refresh()
        return self._sources

    def number(self, name: str, default: int) -> int:
        """Return a whole number."""
        return int(self._refresh().get(name, default))

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean."""
        return self._refresh().get(name, str(default)).strip().lower() == "true"

    def __getitem__(self, name: str) -> str:
        return self._refresh()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._refresh())

    def __len__(self) -> int:
        return len(self._refresh())

    def _refresh(self) -> Mapping[str, str]:
        # The cache replaces this object exactly if a dynamic config changed.
        entities = self._metadata.broker_configs
        if entities is not self._seen:
            own = valid_configs(entities.get(str(self._settings.broker_id), _NOTHING))
            of_all = valid_configs(entities.get(DEFAULT_ENTITY, _NOTHING))
            self._sources = (
                (ConfigSource.DYNAMIC_BROKER, own),
                (ConfigSource.DYNAMIC_DEFAULT_BROKER, of_all),
                (ConfigSource.STATIC_BROKER, self._settings.config),
            )
            self._values = {**self._settings.config, **of_all, **own}
            self._seen = entities
        return self._values
