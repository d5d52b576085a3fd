"""A file with the links of a deployment, for queries that go on while links are added. Shell."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spark_global.views import Aggregate
    from topology.deployment.state_dir import StateDir

LOOK_SECONDS: Final = 1.0


@contextmanager
def followed(
    aggregate: Aggregate, state: StateDir, look_seconds: float = LOOK_SECONDS
) -> Iterator[Aggregate]:
    """Yield the aggregate with a file of its links, which has those that `up` adds meanwhile."""
    from spark_global.followed_links import write_links
    from topology.deployment.aggregate_view import aggregate_view
    from topology.deployment.deployment import read_deployment
    from topology.problems import DeployError

    stops = threading.Event()
    with tempfile.TemporaryDirectory(prefix="heliograph-links-") as directory:
        file = Path(directory) / "links.json"
        write_links(file, aggregate.links)

        def follow() -> None:
            known = aggregate.links
            while not stops.wait(look_seconds):
                try:
                    links = aggregate_view(read_deployment(state), aggregate.name).links
                except (DeployError, KeyError):
                    continue  # it is being written, or is no deployment any more
                if links != known:
                    write_links(file, links)
                    known = links

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield replace(aggregate, links_file=str(file))
        finally:
            stops.set()
            thread.join()
