"""Regular expressions over topic names: RE2's syntax, whole names, bounded time."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.groups import topic_regex
from local_cluster.groups.topic_regex import InvalidRegexError, TopicRegex

GOLDEN = Path(__file__).parents[3] / "golden" / "topic_regexes.txt"
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
        "flights\\.eu",
    ],
)
def test_matches_as_pythons_re_does(pattern: str) -> None:
    expected = tuple(sorted(name for name in NAMES if re.fullmatch(_for_python(pattern), name)))
    assert TopicRegex(pattern).select(NAMES) == expected


def _for_python(pattern: str) -> str:
    # RE2 reads this brace as a literal, Python's re as a count from 0.
    return pattern.replace("a{,2}", "a\\{,2\\}")


def test_syntax_that_only_re2_has() -> None:
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
        *("a" * 2000, "((a{100}){100}){100}", "(\\pL?){1000}"),
    ],
)
def test_invalid_or_oversized_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegexError):
        TopicRegex(pattern)


def test_nested_groups_are_accepted() -> None:
    assert TopicRegex("(" * 100 + ")" * 100).select(NAMES) == ("",)


DIFFERENT_FROM_RE2J = {
    "a" * 2000: None,  # longer than PATTERN_CHARACTERS_MAX
    "((a{100}){100}){100}": None,  # RE2 bounds the product of nested counts by 1,000
    "(a{1000}){2}": None,
    "\\C": ["2", "Z", "a", "b", "d", "w"],  # any byte
    "(?P<a>a)(?P<a>b)": ["ab"],  # a group name may repeat, nobody reads groups
}


def golden() -> tuple[list[str], list[tuple[str, list[str] | None]]]:
    """Return the names and, by pattern, those that RE2/J matches; None: it refuses the pattern."""
    first, *lines = GOLDEN.read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    return json.loads(first), [(entry["pattern"], entry["matches"]) for entry in entries]


def test_answers_as_re2j() -> None:
    names, entries = golden()
    assert len(entries) > 90
    for pattern, matches in entries:
        expected = DIFFERENT_FROM_RE2J.get(pattern, matches)
        if expected is None:
            with pytest.raises(InvalidRegexError):
                TopicRegex(pattern)
        else:
            assert TopicRegex(pattern).select(names) == tuple(expected), pattern


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)+b", "(.*)*x", "a*a*a*a*a*a*a*a*b"])
def test_matching_takes_linear_time(pattern: str) -> None:
    assert TopicRegex(pattern).select(["a" * 249] * 50) == ()


def test_a_search_beyond_its_cpu_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_regex, "CPU_SECONDS_MAX", 0.0)
    with pytest.raises(InvalidRegexError, match="too much CPU time"):
        TopicRegex("(.?){200}x").select(["abcdefgh" * 20] * 100)


@given(st.text("ab|*+?()[]{}^$.\\-,2dw", max_size=12))
def test_any_pattern_is_refused_or_matches_as_pythons_re_does(pattern: str) -> None:
    try:
        ours = TopicRegex(pattern)
    except InvalidRegexError:
        return
    if re.search(r"[*+?}][*+]|\{,|\[\[|--|&&|\|\||~~", pattern):
        return  # Possessive in Python, or a literal in one of the two engines.
    try:
        theirs = re.compile(pattern)
    except re.error:
        return
    names = ("", "a", "b", "ab", "aab", "2", "d", "a-b", "{2}", "w")
    # Python's $ also matches before a newline, which no topic has.
    assert ours.select(names) == tuple(sorted(n for n in names if theirs.fullmatch(n)))


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "missing closing )"),
        ("[", "missing closing ]"),
        ("a\\", "trailing backslash at end of expression"),
        ("*", "missing argument to repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("a**", "invalid nested repetition operator"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?P<n", "invalid named capture"),
        ("[z-a]", "invalid character class range"),
        ("\\8", "invalid escape sequence"),
    ],
)
def test_a_refusal_has_the_words_of_re2j(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidRegexError) as refused:
        TopicRegex(pattern)
    assert str(refused.value) == reason
