"""Errors of pydantic as findings."""

from __future__ import annotations

import re

import pytest
from pydantic_core import ErrorDetails

from topology.file.pydantic_errors import finding_of
from topology.model.topology import schema_text

PATTERNS = sorted(set(re.findall(r'"pattern": "(.*)"', schema_text())))


@pytest.mark.parametrize("pattern", [each.replace("\\\\", "\\") for each in PATTERNS])
def test_each_pattern_of_the_file_says_what_is_expected(pattern: str) -> None:
    details = ErrorDetails(
        type="string_pattern_mismatch",
        loc=("name",),
        msg="String should match",
        input="x",
        ctx={"pattern": pattern},
    )
    assert pattern not in str(finding_of({"name": "x"}, details))
