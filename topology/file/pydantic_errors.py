"""Pydantic's errors as findings: where they are in the file, and what was expected there.

Pydantic's paths have extra items for alternatives of unions and for mapping keys; `in_file` removes
them.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from local_cluster.client.auth.oauth.settings import (
    EXTENSION_PATTERN,
    SCOPE_PATTERN,
    TOKEN_URL_PATTERN,
)
from local_cluster.client.auth.security import Secret
from local_cluster.security.authentication.oauth.settings import HTTPS_PATTERN
from spark_global.values.declaring import Registry
from topology.model import Topology
from topology.model.cluster import LISTENER_PATTERN, LOG_DIR_PATTERN
from topology.model.listener_security import PRINCIPAL_PATTERN, Credentials, Sasl
from topology.model.rights import ANY_PRINCIPAL_PATTERN
from topology.model.scalars import HOST_PATTERN, NAME_PATTERN, TOPIC_PATTERN
from topology.model.security import SecretPlace, Security, TicketLogin, TokenLogin
from topology.model.zookeeper import CHROOT_PATTERN, USERNAME_PATTERN, ZooKeeperSecurity
from topology.problems import Finding, Location, nearest_name

_PATTERN_TEXTS = {
    NAME_PATTERN: "a name of letters, digits, - and _, at most 63 of them",
    HOST_PATTERN: "a host name or address",
    CHROOT_PATTERN: "a path such as /ewr",
    USERNAME_PATTERN: "a name without colons and spaces",
    TOPIC_PATTERN: "a topic name of letters, digits, ., _ and -, at most 249 of them",
    LOG_DIR_PATTERN: "an absolute path, a name of letters, digits, - and _, or .",
    TOKEN_URL_PATTERN: "an address such as https://issuer.example/token, without user and query",
    EXTENSION_PATTERN: "a name of letters",
    SCOPE_PATTERN: "words with one space between two",
    HTTPS_PATTERN: "an address such as https://issuer.example/keys",
    PRINCIPAL_PATTERN: "a principal such as User:admin",
    ANY_PRINCIPAL_PATTERN: "a principal such as User:admin",
    LISTENER_PATTERN: "a name such as PLAINTEXT, of letters, digits, - and _",
}

_NEVER_QUOTED = {
    Security.__name__: "a mapping",
    Sasl.__name__: "a mapping",
    TokenLogin.__name__: "a mapping with `token_url` or `token_file`",
    TicketLogin.__name__: "a mapping with `principal` and `keytab_file`",
    Credentials.__name__: "a mapping with `username` and `password`, `oauth`, `kerberos` or"
    " `certificate_file`",
    SecretPlace.__name__: "a mapping that says where the secret is, by `file` or `env`",
    Secret.__name__: "a mapping that says where the secret is, by `file` or `env`",
    Registry.__name__: "a mapping with `url`",
    ZooKeeperSecurity.__name__: "a mapping with `username`, `password` and perhaps `set_acl`",
}
"""Expected texts of the models in whose place a user may have written a secret. The value is not
repeated."""

_EXPECTED = {
    "missing": "this key is required",
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def finding_of(root: Any, details: ErrorDetails, model: type[Any] = Topology) -> Finding:
    """Return the finding of one of pydantic's errors; `root` is the value that was validated."""
    kind = details["type"]
    location = in_file(root, details["loc"], missing=kind == "missing")
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        known = known_keys(location[:-1], model)
        expected = f"unknown key; expected one of {', '.join(known)}"
        return Finding(location, expected, nearest_name(location[-1], known), at_key=True)
    context = details.get("ctx", {})
    if kind == "literal_error":
        options = [text.strip("'") for text in str(context["expected"]).split(" or ")]
        options = [part.strip("' ") for text in options for part in text.split(",")]
        return Finding(
            location, f"one of {', '.join(options)}", nearest_name(details["input"], options)
        )
    if kind == "missing":
        return Finding(location, _EXPECTED[kind], at_key=True)
    return Finding(location, _expected_text(details))


def _expected_text(details: ErrorDetails) -> str:
    kind, context = details["type"], details.get("ctx", {})
    never_quoted = _NEVER_QUOTED.get(context.get("class_name", ""))
    if never_quoted is not None:
        return never_quoted
    if details["loc"][-1:] == ("users",):
        return "a mapping of users to where their passwords are"
    got = f", not {details['input']!r}" if isinstance(details["input"], str | int | float) else ""
    if kind in _EXPECTED:
        return _EXPECTED[kind] + got
    match kind:
        case "value_error":
            return f"{context['error']}{got}"
        case "greater_than_equal":
            return f"at least {context['ge']}{got}"
        case "less_than_equal":
            return f"at most {context['le']}{got}"
        case "too_short" | "string_too_short":
            return "at least one entry" if kind == "too_short" else "text that is not empty"
        case "string_pattern_mismatch":
            pattern = context["pattern"]
            # An address may have a password in it.
            return _PATTERN_TEXTS[pattern] + ("" if pattern == TOKEN_URL_PATTERN else got)
    return details["msg"][:1].lower() + details["msg"][1:] + got


def in_file(root: Any, path: Location, *, missing: bool) -> Location:
    """Return pydantic's path without its items for unions and mapping keys.

    `missing` keeps a last item that the file lacks.
    """
    value = root
    location: list[int | str] = []
    for depth, item in enumerate(path):
        inside = item in value if isinstance(value, dict) else entry_at(value, item) is not None
        if inside:
            location.append(item)
            value = entry_at(value, item)
        elif missing and depth == len(path) - 1:
            location.append(item)
    return tuple(location)


def known_keys(location: Location, model: type[Any] = Topology) -> list[str]:
    """Return the keys that the model has at a location."""
    annotations: list[Any] = [model]
    for item in location:
        annotations = [inner for each in annotations for inner in _inner(each, item)]
    found = {key for each in annotations for model in _flat(each) for key in _fields(model)}
    return sorted(found)


def _flat(annotation: Any) -> list[Any]:
    """Return the alternatives of a union, without annotations."""
    if get_origin(annotation) is Annotated:
        return _flat(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [each for part in get_args(annotation) for each in _flat(part)]
    return [annotation]


def _fields(annotation: Any) -> dict[str, Any]:
    """Return the fields of a model or dataclass, with their annotations."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {name: each.annotation for name, each in annotation.model_fields.items()}
    if isinstance(annotation, type) and is_dataclass(annotation):
        hints = get_type_hints(annotation)  # with class variables, which are no keys
        return {each.name: hints[each.name] for each in fields(annotation)}
    return {}


def _inner(annotation: Any, item: str | int) -> list[Any]:
    """Return the annotations of the entry `item` of a value with this annotation."""
    inner: list[Any] = []
    for each in _flat(annotation):
        if isinstance(item, int):
            inner += get_args(each)[:1] if get_origin(each) in (list, tuple) else []
        elif get_origin(each) is dict:
            inner.append(get_args(each)[1])
        elif item in _fields(each):
            inner.append(_fields(each)[item])
    return inner


def entry_at(value: Any, item: str | int) -> Any:
    """Return the entry of a mapping or a list; None if there is none."""
    if isinstance(value, dict):
        return value.get(item)
    if isinstance(value, list) and isinstance(item, int) and item < len(value):
        return value[item]
    return None
