"""A tiny daemon for the supervisor's tests: writes its ready file, then waits for SIGTERM.

Its settings file: ready_file; and, as wanted, ready_after_s, exit_code (ends with it at once),
ignore_sigterm, print.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path


def main() -> int:
    settings = json.loads(Path(sys.argv[1]).read_text())
    print(settings.get("print", "started"), flush=True)
    if "exit_code" in settings:
        return int(settings["exit_code"])
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    time.sleep(settings.get("ready_after_s", 0))
    ready = Path(settings["ready_file"])
    temporary = ready.with_suffix(".tmp")
    report = {"pid": os.getpid(), "state": "running", "started_ns": time.monotonic_ns()}
    temporary.write_text(json.dumps(report))
    temporary.replace(ready)
    while not stopped or settings.get("ignore_sigterm"):
        time.sleep(0.02)
    stops = Path(settings["ready_file"]).with_name("stops.txt")
    with stops.open("a") as file:
        file.write(f"{settings['name']}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
