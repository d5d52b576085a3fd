"""The docstring of each handler's file and the table in `handlers/README.md` match the registry."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import local_cluster.handlers.all
from local_cluster.handlers.cluster.p18_api_versions import STORED_CREDENTIALS
from local_cluster.handlers.registry import Handler, advertised_apis, all_apis
from local_cluster.wire.api import ApiKey

README = Path(local_cluster.handlers.all.__file__).with_name("README.md")
ROOT = README.parents[2]


@pytest.mark.parametrize(
    "handler", advertised_apis(), ids=lambda handler: ApiKey(handler.api_key).name
)
def test_the_docstring_names_the_registered_versions(handler: Handler) -> None:
    # From the source: a compiled module keeps no docstring.
    source = ROOT.joinpath(*handler.function.__module__.split(".")).with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(source.read_text())) or ""
    found = re.match(r"(\w+) v(\d+)(?:-v(\d+))?\b", docstring)
    assert found is not None, "starts with the API's name and its versions"
    name, oldest, newest = found.groups()
    assert name.lower() == ApiKey(handler.api_key).name.replace("_", "").lower()
    assert (int(oldest), int(newest or oldest)) == (handler.min_version, handler.max_version)


def row_of(handler: Handler) -> str:
    """A handler's row in the README."""
    name = "".join(part.capitalize() for part in ApiKey(handler.api_key).name.split("_"))
    versions = f"v{handler.min_version}"
    if handler.max_version > handler.min_version:
        versions += f"-v{handler.max_version}"
    path = "/".join(handler.function.__module__.split(".")[2:]) + ".py"
    remark = "" if handler.is_advertised else "between brokers"
    if handler.api_key in STORED_CREDENTIALS:
        remark = "for links, with TLS"
    return f"| {handler.api_key} | {name} | {versions} | `{path}` | {remark} |"


def test_the_table_lists_each_api_with_its_file() -> None:
    rows = [line for line in README.read_text().splitlines() if re.match(r"\| \d", line)]
    assert rows == [row_of(handler) for handler in all_apis()]
