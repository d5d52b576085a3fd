"""What a handler's file says first is what is registered: the API and its versions."""

from __future__ import annotations

import inspect
import re

import pytest

import local_cluster.handlers.all  # noqa: F401  (registers what is served)
from local_cluster.handlers.registry import Handler, advertised_apis
from local_cluster.wire.api import ApiKey


@pytest.mark.parametrize(
    "handler", advertised_apis(), ids=lambda handler: ApiKey(handler.api_key).name
)
def test_the_docstring_names_the_registered_versions(handler: Handler) -> None:
    module = inspect.getmodule(handler.function)
    assert module is not None
    found = re.match(r"(\w+) v(\d+)(?:-v(\d+))?\b", inspect.getdoc(module) or "")
    assert found is not None, "begins with the API's name and its versions"
    name, oldest, newest = found.groups()
    assert name.lower() == ApiKey(handler.api_key).name.replace("_", "").lower()
    assert (int(oldest), int(newest or oldest)) == (handler.min_version, handler.max_version)
