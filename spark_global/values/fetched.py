"""A schema as a registry returns it. Pure."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from spark_global.values.not_decodable import NotDecodable


@dataclass(frozen=True, slots=True)
class Fetched:
    """A schema of a registry."""

    kind: str
    """AVRO, PROTOBUF or JSON."""
    files: tuple[tuple[str, str], ...]
    """Name and text of the schemas it refers to, then of itself; Protobuf: base64 descriptors."""

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(text for _, text in self.files)

    @property
    def descriptors(self) -> tuple[tuple[str, bytes], ...]:
        """Names and descriptors of Protobuf files. Raises NotDecodable."""
        try:
            return tuple((name, base64.b64decode(text, validate=True)) for name, text in self.files)
        except binascii.Error as error:
            raise NotDecodable("the registry does not know format=serialized") from error
