"""The command of a simulation: plays seeds in one process or several, and adds up the results."""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import gc
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from local_cluster.compilation.finder import install
from tests.sim.fixed_process import fix_process


class PlayAll(Protocol):
    """Plays seeds; the result as JSON values: numbers are added up, and so are counts by name."""

    def __call__(self, seeds: range, *, stop_at_first: bool = False) -> dict[str, Any]: ...


class Variant(Protocol):
    """A program that lacks one of its rules while `broken()` is entered."""

    @property
    def broken(self) -> Callable[[], contextlib.AbstractContextManager[object]]: ...


@dataclass(frozen=True, slots=True)
class SeedsCommand:
    """What a simulation's `python -m` does."""

    module: str
    description: str
    play_all: PlayAll
    """A function of a module: several processes import it."""
    variants: Mapping[str, Variant]
    chunk_seeds: int
    """Seeds that one process plays before it reports."""
    summary: Callable[[Mapping[str, Any]], str]
    """Says for the line of progress what a total has besides seeds and anomalies."""
    quiet_level: int
    """Log records up to this level are dropped, unless `--verbose` is given."""

    def run(self) -> int:
        """Run the command; return its exit status."""
        options = self._parse()
        fix_process(self.module, is_broken=bool(options.broken))
        if options.verbose:
            logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
        else:
            logging.disable(self.quiet_level)
            logging.getLogger().addHandler(logging.NullHandler())
        seeds = range(*map(int, options.seeds.split(":")))
        total: dict[str, Any] = {"seeds": options.seeds, "build": install().text}
        gc.freeze()
        if options.broken:
            with self.variants[options.broken].broken():
                _add_up(total, self.play_all(seeds, stop_at_first=True))
        else:
            with contextlib.suppress(KeyboardInterrupt):
                for result in self._in_chunks(seeds, options.jobs):
                    _add_up(total, result)
                    sys.stderr.write(
                        f"{total['played']} of {len(seeds)} seeds, "
                        f"{len(total['anomalies'])} anomalies, {self.summary(total)}\n"
                    )
                    sys.stderr.flush()
        cpu_seconds = total.pop("cpu_seconds", 0.0)
        total["cpu_seconds_per_seed"] = round(cpu_seconds / max(total.get("played", 0), 1), 4)
        print(json.dumps(total))
        return 1 if total.get("anomalies") else 0

    def _parse(self) -> argparse.Namespace:
        parser = argparse.ArgumentParser(
            description=self.description, prog=f"python -m {self.module}"
        )
        one = os.environ.get("SIM_SEED")
        default = f"{one}:{int(one) + 1}" if one else "0:500"
        parser.add_argument(
            "--seeds", default=default, help="first:end or first:end:step, the end not included"
        )
        parser.add_argument("--jobs", type=int, default=1, help="how many processes play")
        parser.add_argument("--broken", choices=sorted(self.variants), help="play a broken variant")
        parser.add_argument(
            "--verbose", action="store_true", help="write the logs of what is played to stderr"
        )
        return parser.parse_args()

    def _in_chunks(self, seeds: range, jobs: int) -> Iterator[dict[str, Any]]:
        step = self.chunk_seeds
        chunks = [seeds[first : first + step] for first in range(0, len(seeds), step)]
        if jobs == 1:
            yield from map(self.play_all, chunks)
            return
        with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
            yield from pool.map(self.play_all, chunks)


def _add_up(total: dict[str, Any], result: Mapping[str, Any]) -> None:
    """Add the result of some seeds to a total."""
    for name, value in result.items():
        if name == "anomalies":
            total[name] = total.get(name, {}) | value
        elif isinstance(value, dict):
            summed = collections.Counter(total.get(name, {})) + collections.Counter(value)
            total[name] = dict(sorted(summed.items()))
        else:
            total[name] = total.get(name, 0) + value
