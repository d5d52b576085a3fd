"""Compile the modules that `compiled.json` names: the `setup.py` of the copied sources.

mypyc writes one C file per module. The C compiler runs once per core, which setuptools alone does
only for extensions, not for the files of one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mypyc.build import mypycify
from setuptools import setup
from setuptools.command.build_ext import build_ext


class ParallelBuild(build_ext):
    """Compiles the C files of an extension at the same time."""

    def build_extensions(self) -> None:
        """Build all extensions."""
        compile_some = self.compiler.compile

        def compile_all(sources: Sequence[str], *options: Any, **named: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                objects = pool.map(lambda each: compile_some([each], *options, **named), sources)
                return [path for paths in objects for path in paths]

        self.compiler.compile = compile_all
        super().build_extensions()


if __name__ == "__main__":
    described = json.loads(Path("compiled.json").read_text(encoding="utf-8"))
    setup(
        name=described["group"],
        packages=[],
        ext_modules=mypycify(
            ["--config-file=mypy.toml", *described["paths"]],
            group_name=described["group"],
            opt_level="2",
            debug_level="0",
            multi_file=True,
        ),
        cmdclass={"build_ext": ParallelBuild},
    )
