"""The Kafka protocol as pure functions over bytes: no I/O, no clock."""

import sys

# kio imports Hypothesis wherever that test library is installed, which takes a quarter of a
# second of every daemon's start and leaves a directory where the daemon runs. Hidden while kio
# looks for it, it stays unloaded.
if "hypothesis" not in sys.modules:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    import kio.static._phantom  # noqa: F401

    del sys.modules["hypothesis"]
