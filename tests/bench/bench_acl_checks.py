"""What a check of ACLs costs a request, per partition: on a warm connection, and the first time.

    python -m tests.bench.bench_acl_checks [--topics N] [--acls N]

A user reads many topics, each by a right of its own, in a cluster that has other ACLs as well. The
names are new strings for each request, as a decoder makes them. Prints CPU microseconds per check,
the least of some rounds, in plain Python and with the compiled modules of `make compile`. The
authorizer itself is not compiled; what calls it is. Exits with 1 if a warm check takes 1 us or
more.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Final, cast

from local_cluster.compilation.builds import PURE_VARIABLE, present_build
from local_cluster.handlers.services import RequestContext
from local_cluster.security.authorization.acl_image import AclImage
from local_cluster.security.authorization.authorizer import Authorizer
from local_cluster.security.authorization.decision import Policy
from local_cluster.server.broker import Broker
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType

US_MAX: Final = 1.0
ROUNDS: Final = 7
PASSES: Final = 100
"""Requests of a round: each one checks every topic."""
MISSED: Final = 1


def image_of(topics: int, others: int) -> AclImage:
    """A right of alice on each topic, and rights of others on topics of other prefixes."""

    def allowed(name: str, principal: str, pattern: PatternType) -> Acl:
        return Acl(
            ResourceType.TOPIC, name, pattern, principal, "*", AclOperation.READ, Permission.ALLOW
        )

    mine = [allowed(f"orders-{n}", "User:alice", PatternType.LITERAL) for n in range(topics)]
    theirs = [allowed(f"x{n}-", f"User:u{n}", PatternType.PREFIXED) for n in range(others)]
    return AclImage.of([*mine, *theirs])


def measure(topics: int, others: int) -> tuple[float, float]:
    """Return (warm, first) CPU microseconds per check."""
    authorizer = Authorizer(Policy(), on_change=lambda: None)
    image = image_of(topics, others)
    encoded = [f"orders-{number}".encode() for number in range(topics)]
    # What handlers call; of the broker it needs no more.
    broker = cast("Broker", SimpleNamespace(_rights=SimpleNamespace(authorizer=authorizer)))
    authorize = Broker.authorize
    context = RequestContext(ApiKey.FETCH, 12, 1, "c", "User:alice", "SASL", "10.1.2.3", 7)

    def check(passes: int) -> float:
        spent = 0.0
        for _ in range(passes):
            names = [name.decode() for name in encoded]
            start = time.process_time()
            for name in names:
                authorize(broker, context, "READ", "TOPIC", name)
            spent += time.process_time() - start
        return spent / (passes * topics) * 1e6

    first = warm = float("inf")
    for _ in range(ROUNDS):
        authorizer.set_image(image)
        first = min(first, check(1))
        warm = min(warm, check(PASSES))
    assert authorize(broker, context, "READ", "TOPIC", "orders-0")
    assert not authorize(broker, context, "WRITE", "TOPIC", "orders-0")
    return warm, first


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_acl_checks")
    parser.add_argument("--topics", type=int, default=1_000, help="that one request names")
    parser.add_argument("--acls", type=int, default=10_000, help="of other users")
    parser.add_argument("--here", action="store_true", help="only as this process runs")
    arguments = parser.parse_args()
    if not arguments.here:
        return max(_in_a_process(pure) for pure in ("1", "0"))
    warm, first = measure(arguments.topics, arguments.acls)
    verdict = "yes" if warm < US_MAX else "no"
    print(
        f"{present_build().text}: {warm:.2f} CPU us per warm check, {first:.2f} for the first; "
        f"below {US_MAX:.0f} us: {verdict}"
    )
    return 0 if warm < US_MAX else MISSED


def _in_a_process(pure: str) -> int:
    command = [sys.executable, "-m", "tests.bench.bench_acl_checks", *sys.argv[1:], "--here"]
    return subprocess.run(command, env=os.environ | {PURE_VARIABLE: pure}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
