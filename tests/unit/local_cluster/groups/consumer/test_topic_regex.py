"""Regular expressions over topic names: RE2's language, whole names, and never a long time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.groups.consumer import topic_regex
from local_cluster.groups.consumer.topic_regex import InvalidRegexError, TopicRegex

NAMES = ("", "a", "ab", "abc", "b", "flights", "Flights", "flights.eu", "flights-2", "x_1", "aaaa")


@pytest.mark.parametrize(
    "pattern",
    [
        "flights",
        "flights.*",
        "flights\\..*",
        "^flights$",
        "a|b|flights.+",
        "(a|b)*",
        "a{2,4}",
        "a{2}b?",
        "a{1,}",
        "[a-c]+",
        "[^a-c]+",
        "[\\w.-]+",
        "\\w+",
        "\\W*",
        "\\d*",
        "(?:ab)+c?",
        "(?P<name>a)b",
        "(?i)FLIGHTS",
        "(?i)[f-g]lights",
        "x_\\d",
        "",
        ".",
        "a??b*?c+?",
        "(|a)+",
        "(a*)*",
        "[]a]+",
        "[a\\]]+",
        "[a-]+",
        "a{,2}",
        "flights\\Q.eu\\E".replace("\\Q.eu\\E", "\\.eu"),
    ],
)
def test_matches_as_the_library_does(pattern: str) -> None:
    expected = tuple(sorted(name for name in NAMES if re.fullmatch(_for_python(pattern), name)))
    assert TopicRegex(pattern).select(NAMES) == expected


def _for_python(pattern: str) -> str:
    # RE2 takes this brace literally, Python's library reads it as a count from 0.
    return pattern.replace("a{,2}", "a\\{,2\\}")


def test_syntax_of_re2_that_python_has_not() -> None:
    assert TopicRegex("[[:alpha:]]+").select(NAMES) == tuple(
        sorted(name for name in NAMES if name and re.fullmatch("[A-Za-z]+", name))
    )
    assert TopicRegex("\\Aflights\\z").select(NAMES) == ("flights",)
    assert TopicRegex("\\Qflights.\\Eeu").select(NAMES) == ("flights.eu",)
    assert TopicRegex("\\x61+").select(NAMES) == ("a", "aaaa")


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", ")", "[", "[a", "a**", "*a", "(?=a)", "(?<!a)b", "\\1", "(a)\\1"),
        *("a{1001}", "a{3,2}", "[b-a]", "[[:nope:]]", "\\", "\\k", "(?z)a", "[a-\\d]"),
        *("a" * 2000, "(" * 100 + ")" * 100, "((a{100}){100}){100}"),
    ],
)
def test_what_is_not_of_re2_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegexError):
        TopicRegex(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)+b", "(.*)*x", "a*a*a*a*a*a*a*a*b"])
def test_what_hangs_other_engines_is_matched_at_once(pattern: str) -> None:
    assert TopicRegex(pattern).select(["a" * 249] * 50) == ()


def test_what_would_take_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_regex, "WORK_MAX", 1_000)
    with pytest.raises(InvalidRegexError, match="too much work"):
        TopicRegex("(.?){200}x").select(["abcdefgh" * 20])


@given(st.text("ab|*+?()[]{}^$.\\-,2dw", max_size=12))
def test_any_pattern_is_refused_or_means_what_the_library_says(pattern: str) -> None:
    try:
        ours = TopicRegex(pattern)
    except InvalidRegexError:
        return
    if re.search(r"[*+?}][*+]|\{,|\[\[|--|&&|\|\||~~", pattern):
        return  # Possessive in Python, or a literal in one of the two.
    try:
        theirs = re.compile(pattern)
    except re.error:
        return
    names = ("", "a", "b", "ab", "aab", "2", "d", "a-b", "{2}", "w")
    # Python's $ also matches before a newline, which no topic has.
    assert ours.select(names) == tuple(sorted(n for n in names if theirs.fullmatch(n)))
