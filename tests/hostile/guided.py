"""`make hostile-guided`: the targets of `make hostile` under atheris, which follows coverage.

Atheris (libFuzzer for Python) keeps inputs that reach new code, so it gets deeper than seeded
changes. It is not in the lock; install it first: `pip install atheris`. Each target runs in a
process of its own, because libFuzzer ends the process of a finding. An input of a finding lies in
the directory of findings, and is tried again by `--target NAME --input FILE`.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Final

try:
    import atheris  # type: ignore[import-untyped]
except ImportError:
    atheris = None

MEMORY_MIB_MAX: Final = 4_096
INPUT_SECONDS_MAX: Final = 20
"""An input that takes longer is a finding."""
INPUT_BYTES_MAX: Final = 65_536
FINDING: Final = "finding"


def main() -> int:
    """Return 1 if there was a finding."""
    parser = argparse.ArgumentParser(prog="make hostile-guided", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--target", help="only this one; all by default")
    parser.add_argument("--input", type=Path, help="try this input of the target again")
    parser.add_argument("--findings", type=Path, default=Path("build/hostile"), help="directory")
    arguments = parser.parse_args()
    if atheris is None:
        parser.exit(2, "atheris is not installed: pip install atheris\n")
    if arguments.target is not None:
        _fuzz(arguments)
        return 0
    arguments.findings.mkdir(parents=True, exist_ok=True)
    names = subprocess.run(
        [sys.executable, "-c", _LISTING], check=True, capture_output=True, text=True
    ).stdout.split()
    found = [name for name in names if not _is_clean(name, arguments)]
    print(f"{len(names)} targets, findings in: {', '.join(found) or 'none'}")
    return int(bool(found))


_LISTING: Final = (
    "from tests.hostile.targets import TARGETS; print(*[each.name for each in TARGETS])"
)


def _is_clean(name: str, arguments: argparse.Namespace) -> bool:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.hostile.guided", "--target", name),
            *("--seconds", str(arguments.seconds), "--findings", str(arguments.findings)),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith(("#", "Done"))]
    print(f"{name:<22} {'clean' if done.returncode == 0 else FINDING}  {lines[-1:]}", flush=True)
    if done.returncode:
        print(*done.stderr.splitlines()[-40:], sep="\n    ", flush=True)
    return done.returncode == 0


def _fuzz(arguments: argparse.Namespace) -> None:
    """Run one target until its time is over, or until a finding ends the process."""
    logging.getLogger().addHandler(logging.NullHandler())
    warnings.simplefilter("ignore")
    with atheris.instrument_imports(include=["local_cluster", "mirror_maker", "aggregator"]):
        from tests.hostile.targets import TARGETS
    (target,) = (each for each in TARGETS if each.name == arguments.target)

    def one_input(content: bytes) -> None:
        with contextlib.suppress(*target.refusals):
            target.read(content)

    if arguments.input is not None:
        one_input(arguments.input.read_bytes())
        return
    with tempfile.TemporaryDirectory() as corpus:
        for number, content in enumerate(target.corpus()):
            (Path(corpus) / str(number)).write_bytes(content)
        options: list[Any] = [
            sys.argv[0],
            corpus,
            f"-max_total_time={arguments.seconds}",
            f"-rss_limit_mb={MEMORY_MIB_MAX}",
            f"-timeout={INPUT_SECONDS_MAX}",
            f"-max_len={INPUT_BYTES_MAX}",
            f"-artifact_prefix={arguments.findings}/{target.name}-",
        ]
        atheris.Setup(options, one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
