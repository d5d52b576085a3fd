"""A broker's remembered decisions stay when the ACLs change: who had a right keeps it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tests.planted.fault import PlantedFault


def _keep(module: ModuleType) -> None:
    def set_image(self: Any, image: Any) -> None:
        self._image = image
        self.version += 1
        self._on_change()

    module.Authorizer.set_image = set_image


FAULT = PlantedFault(
    "remembered decisions of ACLs stay when the ACLs change",
    {"local_cluster.security.authorization.authorizer": _keep},
)
