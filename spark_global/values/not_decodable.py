"""Why a key or value does not decode."""

from __future__ import annotations


class NotDecodable(ValueError):
    """A key or value is not what its schema says.

    The message names fields and types. It never has the value, because reasons are shown.
    """

    def __init__(self, why: str, field: str = "") -> None:
        super().__init__(f"field {field}: {why}" if field else why)
        self.why = why
        self.field = field

    def within(self, name: str) -> NotDecodable:
        """Return the same reason for a field inside of the field `name`."""
        return NotDecodable(self.why, f"{name}.{self.field}" if self.field else name)


class SchemaFileError(ValueError):
    """A schema file cannot be read, used or written. The message names it."""


class UnusableSchema(ValueError):
    """A schema has no columns that Spark knows. The message names the field."""
