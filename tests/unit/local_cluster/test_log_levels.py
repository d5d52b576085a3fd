"""Loggers of a process: their levels, changes, and names that are not known."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from local_cluster.log_levels import (
    BODY_BYTES_MAX,
    LEVELS,
    LoggerLevel,
    UnknownLogger,
    WrongLevel,
    checked_level,
    logger_level,
    logger_levels,
    read_level,
    set_level,
)

PACKAGE = "levels_of_a_test"
MODULE = f"{PACKAGE}.flow.sender"


@pytest.fixture(autouse=True)
def module() -> Iterator[logging.Logger]:
    """A logger of a module, below a package that has no logger object."""
    logger = logging.getLogger(MODULE)
    yield logger
    for name in (MODULE, f"{PACKAGE}.flow", PACKAGE):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_every_logger_has_its_level_and_a_package_is_one() -> None:
    found = {each.logger: each for each in logger_levels()}
    assert next(iter(found)) == "root" and found["root"].is_set
    inherited = found["root"].level
    assert found[MODULE] == LoggerLevel(MODULE, inherited, False)
    assert found[PACKAGE] == LoggerLevel(PACKAGE, inherited, False)
    assert list(found)[1:] == sorted(found.keys() - {"root"})


def test_the_level_of_a_package_counts_below_it(module: logging.Logger) -> None:
    assert set_level(PACKAGE, "DEBUG", by="me") == LoggerLevel(PACKAGE, "DEBUG", True)
    assert module.isEnabledFor(logging.DEBUG)
    assert logger_level(MODULE) == LoggerLevel(MODULE, "DEBUG", False)
    set_level(MODULE, "ERROR", by="me")
    assert not module.isEnabledFor(logging.WARNING)
    assert set_level(MODULE, None, by="me") == LoggerLevel(MODULE, "DEBUG", False)
    assert module.isEnabledFor(logging.DEBUG)


def test_the_root_changes_and_keeps_a_level() -> None:
    before = logging.root.level
    try:
        assert set_level("root", "FATAL", by="me") == LoggerLevel("root", "FATAL", True)
        assert logging.root.level == logging.CRITICAL
        with pytest.raises(WrongLevel, match="the root logger needs a level"):
            set_level("root", None, by="me")
        assert logging.root.level == logging.CRITICAL
    finally:
        logging.root.setLevel(before)


@pytest.mark.parametrize("level", ["DEBUG", "FATAL"])
def test_a_change_is_logged_whatever_the_levels_are(
    level: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = logging.root.level
    try:
        logging.root.setLevel(logging.CRITICAL)
        set_level("root", level, by="10.0.0.7, over HTTP")
    finally:
        logging.root.setLevel(before)
    (record,) = caplog.records
    assert record.getMessage() == (
        f"level of logger root: FATAL -> {level}, set by 10.0.0.7, over HTTP"
    )
    assert (record.name, record.levelname) == ("local_cluster.log_levels", "INFO")


def test_a_level_of_its_parent_says_so_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    set_level(PACKAGE, "ERROR", by="me")
    set_level(MODULE, "DEBUG", by="me")
    set_level(MODULE, None, by="me")
    assert caplog.messages[-1] == (
        f"level of logger {MODULE}: DEBUG -> ERROR, that of its parent, set by me"
    )


def test_an_unknown_logger_has_a_nearest_one_and_is_not_created() -> None:
    for refused in (logger_level, lambda name: set_level(name, "DEBUG", by="me")):
        with pytest.raises(UnknownLogger) as caught:
            refused(f"{PACKAGE}.flow.sendr")
        assert caught.value.nearest == MODULE
        assert str(caught.value).endswith(
            f"no logger '{PACKAGE}.flow.sendr'; did you mean '{MODULE}'?"
        )
    assert f"{PACKAGE}.flow.sendr" not in {each.logger for each in logger_levels()}
    with pytest.raises(UnknownLogger) as caught:
        logger_level("x" * 100_000)
    assert caught.value.nearest is None and len(str(caught.value)) < 300


def test_levels_are_kafkas_in_any_case() -> None:
    assert [checked_level(name.lower()) for name in LEVELS] == list(LEVELS)
    with pytest.raises(WrongLevel, match=r"no level 'warning', only TRACE, .*'WARN'"):
        checked_level("warning")
    assert set_level(MODULE, "trace", by="me").level == "DEBUG", "Python has no TRACE"
    assert set_level(MODULE, "WARN", by="me").level == "WARN"


def test_a_level_between_two_shows_as_the_lower_one(module: logging.Logger) -> None:
    for number, name in ((5, "DEBUG"), (25, "INFO"), (99, "FATAL")):
        module.setLevel(number)
        assert logger_level(MODULE).level == name


def test_the_body_of_a_request() -> None:
    assert read_level(b'{"level": "Debug"}') == "DEBUG"
    assert read_level(b'{"level": null}') is None
    for body in (
        b"",
        b"DEBUG",
        b'"DEBUG"',
        b'{"level": 10}',
        b'{"level": "INFO", "logger": "root"}',
        b"{}",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"level": "INFO"}' + b" " * BODY_BYTES_MAX,
    ):
        with pytest.raises(WrongLevel, match="the body must be"):
            read_level(body)
    with pytest.raises(WrongLevel, match="did you mean 'ERROR'"):
        read_level(b'{"level": "ERR"}')
