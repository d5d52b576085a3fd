"""Generations of a topology file, and how the file of a host stands to them. Pure.

    first     no generation is stored: the file becomes one
    same      the file is the newest generation
    advance   the file was edited by a host that had seen the newest generation: it is the next one
    behind    the file is an earlier generation: the host did not get the newest one yet
    conflict  neither: the file was edited by a host that had not seen the newest generation

Guarantees: with one ZooKeeper, each generation was written by a host that had seen the one before,
or that named its number. Generations that ZooKeepers of different clusters hold are a conflict
unless they follow one another.

A host notes what it is about to write before it writes. So a host that is killed between ZooKeeper
and its note finds its own generation again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from topology.shared_file.canonical import digest_of

FORMAT_VERSION: Final = 1
FORMER_MAX: Final = 100
"""Earlier generations that are known by their digest."""

State = Literal["first", "same", "advance", "behind", "conflict"]


class NotAGeneration(Exception):
    """The content of a znode or a note is not what this version writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A topology file that some host has made the one of all hosts."""

    number: int
    """It counts from 1."""
    text: str
    host: str
    """Host on which the file was edited."""
    written_at: str
    """ISO 8601, by the clock of that host."""
    former: tuple[str, ...] = ()
    """Digests of the generations before, the last one first."""

    @property
    def digest(self) -> str:
        return digest_of(self.text)

    def is_same(self, other: Generation) -> bool:
        """Return whether both count as one: hosts with the same edit may each have written it."""
        return (self.number, self.text) == (other.number, other.text)

    def follows(self, other: Generation) -> bool:
        """Return whether `other` is this generation, one before it, or has the same text."""
        if other.text == self.text or other.number >= self.number:
            return other.text == self.text
        place = self.number - other.number - 1
        is_forgotten = len(self.former) == FORMER_MAX <= place
        return is_forgotten or self.former[place : place + 1] == (other.digest,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a host knows of the generations."""

    generation: Generation | None = None
    """The last one that it has seen; None before the first."""
    claim: Generation | None = None
    """The one that it was about to write, until it has noted that it is written."""
    applied: str | None = None
    """The file that it applied last while no ZooKeeper answered, until it has seen a generation:
    whoever edits it there has seen this text, whatever number another host has given it."""

    def has(self, stored: Generation) -> bool:
        """Return whether the host has seen a stored generation, or has written it."""
        known = (self.generation, self.claim)
        is_known = any(each is not None and each.is_same(stored) for each in known)
        return is_known or self.applied == stored.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """How a file stands to the stored generations."""

    state: State
    newest: Generation | None
    """The stored generation to compare with; None if none is stored."""
    rival: Generation | None = None
    """Another stored one that does not go with it; None without one."""
    base: Generation | None = None
    """The generation that the next one follows."""

    def next(self, text: str, host: str, written_at: str) -> Generation:
        """Return the generation to write for `first` and `advance`."""
        base = self.base
        return Generation(
            number=1 if base is None else base.number + 1,
            text=text,
            host=host,
            written_at=written_at,
            former=() if base is None else (base.digest, *base.former)[:FORMER_MAX],
        )


def decide(
    text: str, seen: Seen, stored: Iterable[Generation], *, replaces: int | None = None
) -> Decision:
    """Return how a file with this text stands to the stored generations, of every ZooKeeper.

    `replaces` is the number of a generation that the file replaces, by the word of the operator.
    """
    found = sorted(stored, key=lambda each: -each.number)
    if not found:
        return Decision(state="first", newest=None, base=seen.generation)
    newest = _to_compare(text, seen, found)
    rival = next((each for each in found if not newest.follows(each)), None)
    if rival is not None:
        state: State = "advance" if replaces == newest.number else "conflict"
        return Decision(state=state, newest=newest, rival=rival, base=newest)
    if newest.text == text:
        return Decision(state="same", newest=newest)
    if replaces == newest.number or seen.has(newest):
        return Decision(state="advance", newest=newest, base=newest)
    last = seen.generation
    if last is not None and last.number > newest.number and last.follows(newest):
        # ZooKeeper lost generations, for example by a restored snapshot.
        return Decision(state="advance", newest=newest, base=last)
    is_left = last is not None and last.text == text and last.number < newest.number
    if is_left or digest_of(text) in newest.former:
        return Decision(state="behind", newest=newest)
    return Decision(state="conflict", newest=newest)


def _to_compare(text: str, seen: Seen, found: Sequence[Generation]) -> Generation:
    """Return the newest generation; of several, one that is news to this host."""
    newest = [each for each in found if each.number == found[0].number]
    news = [each for each in newest if each.text != text and not seen.has(each)]
    return (news or newest)[0]


def encode_generation(generation: Generation) -> bytes:
    """Return the JSON that `decode_generation` reads."""
    document = {"version": FORMAT_VERSION, **asdict(generation)}
    return json.dumps(document, ensure_ascii=False).encode()


def decode_generation(content: bytes) -> Generation:
    """Read the content of a znode. Raises NotAGeneration."""
    try:
        return _generation(json.loads(content))
    except (ValueError, KeyError, TypeError) as error:
        raise NotAGeneration(f"not a generation of a topology: {error!r}") from error


def encode_seen(seen: Seen) -> str:
    """Return the JSON that `decode_seen` reads."""
    return json.dumps({"version": FORMAT_VERSION, **asdict(seen)})


def decode_seen(content: str) -> Seen:
    """Read a note. Raises NotAGeneration."""
    try:
        document = json.loads(content)
        version = document["version"]
        found = {
            name: None
            if document[name] is None
            else _generation({"version": version} | document[name])
            for name in ("generation", "claim")
        }
        applied = document.get("applied")  # absent in notes of earlier versions
        if applied is not None and not isinstance(applied, str):
            raise TypeError("`applied` is no text")
    except (ValueError, KeyError, TypeError) as error:
        raise NotAGeneration(f"not a note on generations: {error!r}") from error
    return Seen(**found, applied=applied)


def _generation(document: dict[str, Any]) -> Generation:
    if document["version"] != FORMAT_VERSION:
        raise ValueError(f"format {document['version']}, not {FORMAT_VERSION}")
    return Generation(
        number=int(document["number"]),
        text=str(document["text"]),
        host=str(document["host"]),
        written_at=str(document["written_at"]),
        former=tuple(str(each) for each in document["former"]),
    )
