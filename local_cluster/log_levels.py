"""The loggers of this process and their levels, which an operator may change while it runs. Pure.

Loggers have Python's names, levels Kafka's. A package is a logger too: its level counts for every
logger below it that has none of its own. A change lasts until the process ends.
"""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

ROOT: Final = "root"
LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
"""Python has no TRACE: it is DEBUG here."""
BODY_BYTES_MAX: Final = 500
NAME_CHARACTERS_MAX: Final = 200
"""How much of an unknown name is compared and repeated."""
_NAMES: Final = {level: name for name, level in LEVELS.items()}

log = logging.getLogger(__name__)


class UnknownName(ValueError):
    """A name that is not known; `nearest` is the most similar known one, or None."""

    def __init__(self, sentence: str, given: str, known: Iterable[str]) -> None:
        found = difflib.get_close_matches(given[:NAME_CHARACTERS_MAX], list(known), n=1)
        self.nearest = found[0] if found else None
        self.sentence = sentence
        """What is wrong, without the hint."""
        hint = f"; did you mean {self.nearest!r}?" if self.nearest else ""
        super().__init__(sentence + hint)


class UnknownLogger(UnknownName):
    """This process has no logger of this name."""


class WrongLevel(UnknownName):
    """A level that no logger, or not this one, can have."""


class LoggerLevel(NamedTuple):
    """A logger of this process."""

    logger: str
    level: str
    """The level in effect, by Kafka's name."""
    is_set: bool
    """Whether the level is its own, not that of its parent."""


def logger_names() -> Iterator[str]:
    """Yield the root, then every logger and package that modules have named, by name."""
    yield ROOT
    yield from sorted(logging.root.manager.loggerDict)


def logger_levels() -> list[LoggerLevel]:
    """Return every logger with its level."""
    return [_level_of(name) for name in logger_names()]


def logger_level(name: str) -> LoggerLevel:
    """Return a logger with its level. Raises UnknownLogger."""
    if name not in {*logger_names()}:
        shown = name[:NAME_CHARACTERS_MAX]
        raise UnknownLogger(f"this process has no logger {shown!r}", name, logger_names())
    return _level_of(name)


def set_level(name: str, level: str | None, *, by: str) -> LoggerLevel:
    """Set the level of a logger, or return it to its parent's level (None); log the change.

    `by` says who asked for it. Raises UnknownLogger, and WrongLevel for the root without a level.
    """
    before = logger_level(name)
    if level is None and name == ROOT:
        raise WrongLevel(f"the {ROOT} logger needs a level", "", ())
    number = logging.NOTSET if level is None else LEVELS[checked_level(level)]
    logging.getLogger(None if name == ROOT else name).setLevel(number)
    after = _level_of(name)
    own = "" if after.is_set else ", that of its parent"
    text = "level of logger %s: %s -> %s%s, set by %s"
    arguments = (name, before.level, after.level, own, by)
    # Not by `log.info`: the change itself may hide this line, or what was set before it.
    log.handle(log.makeRecord(log.name, logging.INFO, __file__, 0, text, arguments, None))
    return after


def checked_level(given: str) -> str:
    """Return the name of a level in upper case. Raises WrongLevel."""
    name = given.upper()
    if name not in LEVELS:
        shown = given[:NAME_CHARACTERS_MAX]
        expected = f"there is no level {shown!r}, only {', '.join(LEVELS)}"
        raise WrongLevel(expected, name, LEVELS)
    return name


def read_level(body: bytes) -> str | None:
    """Return the level of a request such as `{"level": "DEBUG"}`; null is the parent's level.

    Raises WrongLevel.
    """
    document: object = None
    if len(body) <= BODY_BYTES_MAX:
        try:
            document = json.loads(body)
        except ValueError:
            document = None
    match document:
        case {"level": None, **more} if not more:
            return None
        case {"level": str(level), **more} if not more:
            return checked_level(level)
    raise WrongLevel(
        f'the body must be {{"level": LEVEL}} with one of {", ".join(LEVELS)},'
        " or null for the level of the parent",
        "",
        (),
    )


def _level_of(name: str) -> LoggerLevel:
    """A package has no logger object until its level is set; asking for one changes no level."""
    logger = logging.getLogger(None if name == ROOT else name)
    level = logger.getEffectiveLevel()
    known = max((each for each in _NAMES if each <= level), default=logging.DEBUG)
    return LoggerLevel(name, _NAMES[known], logger.level != logging.NOTSET)
