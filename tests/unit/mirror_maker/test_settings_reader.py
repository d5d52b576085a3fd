"""JSON to dataclasses: nothing is converted, and what is wrong is named with its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest

from mirror_maker.record_rules import JsonTest, RecordFilter
from mirror_maker.settings_reader import SettingsError, read_settings


def check_even(number: int) -> None:
    if number % 2:
        raise ValueError(f"an even number, not {number}")


Even = Annotated[int, check_even]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    word: str
    limit: Even | None = None

    def __post_init__(self) -> None:
        if self.word == "none":
            raise ValueError("another word")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    inner: Inner | None = None
    several: tuple[Inner, ...] = ()
    kind: Literal["a", "b"] = "a"
    is_on: bool = False
    scalar: bool | int | float | str | None = None
    names: Mapping[str, str] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", Outer()),
        ('{"inner": null, "scalar": null}', Outer()),
        ('{"inner": {"word": "x", "limit": 4}}', Outer(inner=Inner(word="x", limit=4))),
        ('{"several": [{"word": "x"}]}', Outer(several=(Inner(word="x"),))),
        ('{"kind": "b", "is_on": true}', Outer(kind="b", is_on=True)),
        ('{"names": {"x": "y"}}', Outer(names={"x": "y"})),
    ],
)
def test_what_is_right_is_read(text: str, expected: Outer) -> None:
    assert read_settings(Outer, text) == expected


@pytest.mark.parametrize(
    ("written", "value"), [("true", True), ("1", 1), ("1.0", 1.0), ('"1"', "1")]
)
def test_a_scalar_is_of_the_type_that_is_written(written: str, value: object) -> None:
    read = read_settings(Outer, f'{{"scalar": {written}}}').scalar
    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON: "),
        ("[]", "an object, not []"),
        ('{"scalar": NaN}', "not JSON: NaN is no JSON"),
        ('{"innr": {}}', "unknown key 'innr'; known are inner, several, "),
        ('{"inner": {}}', "inner: 'word' is missing"),
        ('{"inner": {"word": 1}}', "inner.word: a text, not 1"),
        ('{"inner": {"word": "x", "limit": 3}}', "inner.limit: an even number, not 3"),
        ('{"inner": {"word": "x", "limit": "4"}}', "inner.limit: a whole number, not '4'"),
        ('{"inner": {"word": "x", "limit": true}}', "inner.limit: a whole number, not True"),
        ('{"several": [{"word": "x"}, {"word": "none"}]}', "several[1]: another word"),
        ('{"several": {}}', "several: a list, not {}"),
        ('{"kind": "c"}', "kind: one of a, b, not 'c'"),
        ('{"is_on": 1}', "is_on: true or false, not 1"),
        ('{"scalar": []}', "scalar: something else than []"),
        ('{"names": {"x": 1}}', "names.x: a text, not 1"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(Outer, text)
    assert str(caught.value).startswith(message)


def test_bounds_that_pydantic_knows_too() -> None:
    conditions = ",".join(['{"header": "x"}'] * 101)
    with pytest.raises(SettingsError, match="keep: at most 100, not 101"):
        read_settings(RecordFilter, f'{{"keep": [{conditions}]}}')
    with pytest.raises(SettingsError, match="equals"):
        read_settings(JsonTest, '{"json": "/a", "equals": 1e999}')
