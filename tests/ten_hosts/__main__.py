"""Ten hosts in three datacenters: deployed, grown, upgraded, cut, lost and replaced, under load.

    python -m tests.ten_hosts                      # some ten minutes
    python -m tests.ten_hosts --seed 7 -o result   # also writes result.json and result.md

The hosts are network namespaces where those are permitted, else loopback addresses. The exit code
is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import psutil

from tests.ten_hosts.conditions import Say
from tests.ten_hosts.layout import FIRST_HOSTS, NEW_HOST, SUCCESSOR
from tests.ten_hosts.life import STEPS, Life
from tests.ten_hosts.network import Network, enter_namespace, make_network
from tests.ten_hosts.report import Result, as_json, as_markdown


def main() -> int:
    """Play a life; return the exit code."""
    arguments = _parsed()
    if arguments.network != "loopback":
        enter_namespace()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    network = make_network([*FIRST_HOSTS, NEW_HOST, SUCCESSOR])
    if arguments.network == "namespaces" and network.kind != "network namespaces":
        print("network namespaces are not permitted here", file=sys.stderr)
        return 2
    directory = Path(tempfile.mkdtemp(prefix="ten-hosts-", dir=arguments.directory))
    result = Result(_machine(network, arguments.seed))
    say = _sayer()
    say(f"hosts are {network.kind}; seed {arguments.seed}; files are in {directory}")
    life = Life(
        network,
        directory,
        result,
        say,
        seed=arguments.seed,
        rate=arguments.rate,
        records=arguments.records,
        steps=arguments.steps,
    )
    try:
        life.live()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - a finding like any other
        traceback.print_exc()
        result.findings.append(f"{result.steps[-1].name if result.steps else ''}: {error}")
    finally:
        life.end()
        network.close()
    _write(result, arguments.output)
    if result.is_well:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        say(f"logs are in {directory}")
    return 0 if result.is_well else 1


def _write(result: Result, output: Path | None) -> None:
    text = as_markdown(result)
    print(f"\n{text}", flush=True)
    if output is not None:
        output.with_suffix(".json").write_text(json.dumps(as_json(result), indent=2) + "\n")
        output.with_suffix(".md").write_text(text)


def _machine(network: Network, seed: int) -> Mapping[str, Any]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": commit.stdout.strip() or "unknown",
        "hosts": network.kind,
        "seed": seed,
        "cores": psutil.cpu_count(),
        "Python": platform.python_version(),
        "librdkafka": confluent_kafka.libversion()[0],
    }


def _sayer() -> Say:
    started_s = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - started_s:6.1f} s] {text}", flush=True)

    return say


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.ten_hosts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--rate", type=float, default=20.0, help="records/s of each datacenter")
    parser.add_argument(
        "--records", type=int, default=200, help="acknowledged in each datacenter in each step"
    )
    parser.add_argument("--network", choices=["namespaces", "loopback"], help="default: what works")
    parser.add_argument("--directory", type=Path, help="where files are; default: temporary")
    parser.add_argument("--steps", default=",".join(STEPS), help=f"of {', '.join(STEPS)}")
    parser.add_argument("-o", "--output", type=Path, help="name of a .json and a .md file")
    arguments = parser.parse_args()
    arguments.steps = [each for each in arguments.steps.split(",") if each]
    if unknown := set(arguments.steps) - set(STEPS):
        parser.error(f"unknown steps: {', '.join(unknown)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
