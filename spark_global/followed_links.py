"""Links of a running stream from a file that somebody keeps up to date. Shell, on the driver.

A stream finds a link that is added by its offset map, which does not name its datacenter. The file
has the text of option `links`, so the datacenter has its name from its first record on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from spark_global.links import MirrorLink, decode_links, encode_links

log = logging.getLogger(__name__)


class FollowedLinks:
    """The links of the options, and those of the file as of the last call."""

    def __init__(self, given: tuple[MirrorLink, ...], file: str | None) -> None:
        self._links = given
        self._file = file
        self._seen: tuple[int, int, int] | None = None

    def now(self) -> tuple[MirrorLink, ...]:
        """Return the links. One that leaves the file stays; a file that cannot be read too."""
        if self._file is None:
            return self._links
        try:
            found = Path(self._file).stat()
            seen = found.st_mtime_ns, found.st_ino, found.st_size
            if seen != self._seen:
                self._links = _united(self._links, decode_links(Path(self._file).read_text()))
                self._seen = seen
        except (OSError, ValueError) as error:
            log.warning("the links in %s cannot be read: %s", self._file, error)
        return self._links


def write_links(file: Path, links: Iterable[MirrorLink]) -> None:
    """Write the file, whole or not at all."""
    unfinished = file.with_name(f"{file.name}.unfinished")
    unfinished.write_text(encode_links(links))
    unfinished.replace(file)


def _united(
    before: tuple[MirrorLink, ...], found: tuple[MirrorLink, ...]
) -> tuple[MirrorLink, ...]:
    named = {link.name for link in found}
    return (*found, *(link for link in before if link.name not in named))
