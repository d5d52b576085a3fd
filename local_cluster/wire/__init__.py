"""The Kafka protocol as pure functions over bytes: no I/O, no clock.

In reading order:

- `constants`, `api` (API keys), `errors` (error codes): numbers with a meaning;
- `frame`, `header`, `primitives`: what every message has;
- `request_memory`: the limit of what frames of all connections may take;
- `messages`: every message through kio; `schemas/`: what kio's classes need and lack;
- `responses/`: the fields of the handlers' responses as types;
- by hand, because they are hot: `produce` and `fetch/`; the broker's side of `list_offsets`,
  `offset_commit` and `metadata_response`; a client's side of `metadata`;
- shared by these: `topics` (by name or id), `current_leader` (KIP-951).
"""

import sys

# kio imports Hypothesis where that test library is installed. It would cost each daemon a quarter
# of a second at its start, and leave a directory where it runs. This hides Hypothesis from kio.
if "hypothesis" not in sys.modules:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    import kio.static._phantom  # noqa: F401

    del sys.modules["hypothesis"]
