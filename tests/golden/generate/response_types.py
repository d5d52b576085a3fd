"""Write `local_cluster/wire/responses/`: one TypedDict per response that a handler builds.

Run `python -m tests.golden.generate.response_types` after a handler's versions change;
`tests/unit/local_cluster/wire/test_responses.py` fails until then. A class has the fields of all
served versions. A field is required where every version has it and the schema has no default.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args, get_type_hints

import local_cluster.handlers.all  # noqa: F401  (registers what is served)
from local_cluster.handlers.registry import Handler, all_apis
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.schemas import kio_schema

TARGET: Final = Path(__file__).parents[3] / "local_cluster" / "wire" / "responses"

HEADER: Final = '''"""Responses of the handlers in `handlers/{room}`, as typed mappings.

Generated from kio's schemas by tests/golden/generate/response_types.py: do not edit.
"""

from __future__ import annotations

{imports}
'''

PRIMITIVES: Final = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "records": "bytes",
    "uuid": "uuid.UUID",
    "error_code": "ErrorCode",
}
"""By kio's `kafka_type`; all others are integers, times in milliseconds."""


class Struct(NamedTuple):
    """One class to write, and the classes of kio that it stands for, by version."""

    name: str
    api: str
    first: int
    last: int
    schemas: dict[int, Any]
    is_response: bool


def rooms() -> dict[str, list[Handler]]:
    """Handlers that return a mapping, by their room in `local_cluster/handlers`."""
    found: dict[str, list[Handler]] = defaultdict(list)
    for handler in all_apis():
        if not handler.raw:
            found[handler.function.__module__.split(".")[2]].append(handler)
    return dict(sorted(found.items()))


def structs(handler: Handler) -> list[Struct]:
    """The structs of a response, innermost first."""
    api = "".join(part.capitalize() for part in ApiKey(handler.api_key).name.split("_"))
    found: list[Struct] = []

    def walk(schemas: dict[int, Any], is_response: bool) -> None:
        names: dict[str, dict[int, Any]] = defaultdict(dict)
        for version, schema in schemas.items():
            hints = get_type_hints(schema)
            for entry in fields(schema):
                nested = kio_schema.nested_schema(hints[entry.name])
                if nested is not None:
                    names[entry.name][version] = nested
        for nested_schemas in names.values():
            walk(nested_schemas, False)
        name = schemas[max(schemas)].__name__
        same = next((each for each in found if each.name == name), None)
        if same is not None:
            same.schemas.update(schemas)
            return
        versions = (handler.min_version, handler.max_version)
        found.append(Struct(name, api, *versions, schemas, is_response))

    served = range(handler.min_version, handler.max_version + 1)
    walk({v: messages.load_schema(handler.api_key, v, True) for v in served}, True)
    return found


def type_of(entry: Field[Any], hint: Any, names: dict[int, str]) -> str:
    """The annotation of a field; `names` has the written name of each struct by kio's class."""
    nested = kio_schema.nested_schema(hint)
    if nested is not None:
        element = names[id(nested)]
    else:
        element = PRIMITIVES.get(entry.metadata.get("kafka_type", ""), "int")
    return f"Sequence[{element}]" if kio_schema.is_array(hint) else element


def is_required(struct: Struct, name: str, entry: Field[Any]) -> bool:
    in_all = all(name in {each.name for each in fields(s)} for s in struct.schemas.values())
    has_default = entry.default is not MISSING or entry.default_factory is not MISSING
    return in_all and not has_default and not name.startswith("throttle_time")


def write_class(struct: Struct, name: str, names: dict[int, str]) -> str:
    lines = [f"class {name}(TypedDict):"]
    if struct.is_response:
        versions = f"v{struct.first}" + (f"-v{struct.last}" if struct.last > struct.first else "")
        lines += [f'    """{struct.api} {versions}."""', ""]
    entries: dict[str, tuple[Field[Any], Any]] = {}
    nullable: set[str] = set()
    for _, schema in sorted(struct.schemas.items(), reverse=True):
        hints = get_type_hints(schema)
        for entry in fields(schema):
            entries.setdefault(entry.name, (entry, hints[entry.name]))
            if type(None) in get_args(hints[entry.name]):
                nullable.add(entry.name)
    for field, (entry, hint) in entries.items():
        annotation = type_of(entry, hint, names) + (" | None" if field in nullable else "")
        if not is_required(struct, field, entry):
            annotation = f"NotRequired[{annotation}]"
        lines.append(f"    {field}: {annotation}")
    return "\n".join(lines)


def write_room(room: str, handlers: list[Handler]) -> str:
    """The text of one module."""
    found = [struct for handler in handlers for struct in structs(handler)]
    # Structs of the same name share a class if they are equal, else the name of the API is added.
    ambiguous: set[str] = set()
    while True:
        names: dict[int, str] = {}
        classes: dict[str, str] = {}
        texts: dict[str, set[str]] = defaultdict(set)
        for struct in found:
            name = struct.api + struct.name if struct.name in ambiguous else struct.name
            names |= {id(schema): name for schema in struct.schemas.values()}
            classes[name] = write_class(struct, name, names)
            texts[struct.name].add(classes[name])
        clashing = {name for name, written in texts.items() if len(written) > 1} - ambiguous
        if not clashing:
            break
        ambiguous |= clashing
    body = "\n\n\n".join(classes.values())
    imports = ["import uuid"] if "uuid.UUID" in body else []
    imports += ["from collections.abc import Sequence"] if "Sequence[" in body else []
    typing = "NotRequired, TypedDict" if "NotRequired[" in body else "TypedDict"
    imports += [f"from typing import {typing}", ""]
    imports += ["from local_cluster.wire.errors import ErrorCode", ""]
    return HEADER.format(room=room, imports="\n".join(imports)) + "\n" + body + "\n"


def formatted(text: str) -> str:
    """The text as ruff formats it."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "responses.py", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout


def main() -> None:
    for room, handlers in rooms().items():
        (TARGET / f"{room}.py").write_text(formatted(write_room(room, handlers)))


if __name__ == "__main__":
    main()
