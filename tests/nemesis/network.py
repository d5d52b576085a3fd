"""The network of a cluster under test: the proxy's process, and what its links do now."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.nemesis.links import Link, Route, Rules

ANSWER_SECONDS_MAX: Final = 60.0


class Network:
    """Starts the proxy; `cut`, `slow_down` and `heal` change what it does."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._rules = Rules()
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self.on_cut: Callable[[frozenset[Link]], None] = lambda _: None
        """Gets the links that pass nothing, whenever they may have changed."""

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.nemesis.proxy", json.dumps(self._routes)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parent.parent.parent,
        )
        await self._answer(b"ready\n")

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def know(self, pids: Mapping[str, int]) -> None:
        """Tell which process is which broker."""
        await self._apply(replace(self._rules, pids={**self._rules.pids, **pids}))

    async def cut(self, links: Iterable[Link]) -> None:
        await self._apply(replace(self._rules, cut=self._rules.cut | frozenset(links)))

    async def slow_down(self, links: Collection[Link], delay_ms: int, *, loss: float = 0.0) -> None:
        """`loss`: the share of packets that get lost."""
        delays, losses = dict.fromkeys(links, delay_ms), dict.fromkeys(links, loss)
        await self._apply(replace(self._rules, delay_ms=delays, loss=losses))

    async def heal(self) -> None:
        """Every link passes at once again."""
        await self._apply(replace(self._rules, cut=frozenset(), delay_ms={}, loss={}))

    async def _apply(self, rules: Rules) -> None:
        async with self._turn:
            assert self._process is not None and self._process.stdin is not None
            self._rules = rules
            self.on_cut(rules.cut)
            self._process.stdin.write(rules.dump().encode() + b"\n")
            await self._process.stdin.drain()
            await self._answer(b"ok\n")

    async def _answer(self, expected: bytes) -> None:
        assert self._process is not None and self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), ANSWER_SECONDS_MAX)
        if line != expected:
            raise RuntimeError(f"the proxy of the network has ended: {line!r}")
