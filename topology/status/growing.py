"""What the status says of ZooKeeper ensembles that grow."""

from __future__ import annotations

from collections.abc import Sequence

from topology.ensemble.nodes import Unfinished
from topology.status.diagnosis import diagnose_growth
from topology.status.document import WAITING, JsonObject


def with_growth(document: JsonObject, unfinished: Sequence[Unfinished], state: str) -> JsonObject:
    """Return the document with the ensembles whose members are not those of the file.

    `state` is that of a deployment of which everything else runs.
    """
    if not unfinished:
        return document
    problems = [each.as_json() for each in diagnose_growth(document["topology_file"], unfinished)]
    if document["state"] == "running":
        waits = all(each.needs_other_hosts for each in unfinished)
        document = {**document, "state": WAITING if waits else state}
    return {**document, "problems": [*document["problems"], *problems]}
