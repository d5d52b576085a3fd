"""Where our answers differ from Kafka 4.3's, and why: the only differences that pass."""

from __future__ import annotations

from typing import Final

DEVIATIONS: Final = ()
