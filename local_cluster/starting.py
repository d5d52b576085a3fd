"""Starts a process: imports what it needs, then runs it."""

from __future__ import annotations

import gc
from collections.abc import Callable


def run(import_main: Callable[[], Callable[[], int | None]]) -> int | None:
    """Run the function that `import_main` imports; return its exit code.

    Imports make very many objects, and nearly all of them stay. To look for garbage among them
    took a third of a broker's start. So collections begin after the imports, and without these.
    """
    gc.disable()
    main = import_main()
    gc.freeze()
    gc.enable()
    return main()
