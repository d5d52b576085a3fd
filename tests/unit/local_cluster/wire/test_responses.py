"""`wire/responses`: the typed responses are those of the served versions."""

from __future__ import annotations

import ast
import inspect

import pytest

import local_cluster.handlers.all  # noqa: F401  (registers what is served)
from local_cluster.handlers.registry import Handler, all_apis
from local_cluster.wire.api import ApiKey
from local_cluster.wire.messages import load_schema
from tests.golden.generate import response_types

WITH_FIELDS = [handler for handler in all_apis() if not handler.raw]


def api_name(handler: Handler) -> str:
    return "".join(part.capitalize() for part in ApiKey(handler.api_key).name.split("_"))


@pytest.mark.parametrize("room", response_types.rooms())
def test_the_modules_are_what_the_generator_writes(room: str) -> None:
    written = (response_types.TARGET / f"{room}.py").read_text()
    text = response_types.write_room(room, response_types.rooms()[room])
    assert written == response_types.formatted(text), f"run {response_types.__name__}"


@pytest.mark.parametrize("handler", WITH_FIELDS, ids=api_name)
def test_a_handler_names_the_classes_of_its_newest_version(handler: Handler) -> None:
    module = inspect.getmodule(handler.function)
    assert module is not None
    tree = ast.parse(inspect.getsource(module))
    function = next(
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == handler.function.__name__
    )
    annotation, returns = function.args.args[-1].annotation, function.returns
    assert annotation is not None and returns is not None
    request = ast.unparse(annotation).removesuffix(" | None")
    response = ast.unparse(returns)
    encodes_itself = "bytes" in response
    assert encodes_itself or f"{api_name(handler)}Response" in response
    imports = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert request == f"{api_name(handler)}Request"
    newest = load_schema(handler.api_key, handler.max_version, response=False)
    assert imports[request] == newest.__module__
