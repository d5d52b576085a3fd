"""Starts a process: imports what it needs, then runs it."""

from __future__ import annotations

import gc
import importlib


def run(module: str) -> int | None:
    """Import a module and run its `main()`; return the exit code.

    Imports make very many objects, and nearly all of them stay. To look for garbage among them
    took a third of a broker's start. So collections begin after the imports, and without these.
    """
    gc.disable()
    main = importlib.import_module(module).main
    gc.freeze()
    gc.enable()
    code: int | None = main()
    return code
