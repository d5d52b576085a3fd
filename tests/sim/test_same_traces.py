"""A seed plays the same on compiled modules and on plain Python, log line by log line."""

from __future__ import annotations

import pytest

from local_cluster.compilation.builds import PURE_VARIABLE
from local_cluster.compilation.finder import install
from tests.sim.played_seeds import played_with_log

LINES_MIN = 20
"""A trace of fewer lines compares nothing."""


@pytest.mark.skipif(install().directory is None, reason=f"this is {install().text}")
@pytest.mark.parametrize(
    ("simulation", "seeds"),
    [("tests.sim.cluster", "0:4"), ("tests.sim.mirror_product", "0:3")],
)
def test_a_seed_has_the_same_trace_compiled_and_plain(simulation: str, seeds: str) -> None:
    compiled, lines = played(simulation, seeds, pure="0")
    plain, plain_lines = played(simulation, seeds, pure="1")
    assert compiled.pop("build") == "compiled modules"
    assert plain.pop("build") == f"plain Python: {PURE_VARIABLE}=1"
    assert compiled == plain
    assert compiled["anomalies"] == {}
    assert len(lines) >= LINES_MIN
    assert lines == plain_lines


def played(simulation: str, seeds: str, *, pure: str) -> tuple[dict[str, object], list[str]]:
    """Return the result, and the log of all simulated processes."""
    result, log = played_with_log(
        simulation, "--seeds", seeds, "--verbose", environment={PURE_VARIABLE: pure}
    )
    del result["cpu_seconds_per_seed"]
    return result, log
