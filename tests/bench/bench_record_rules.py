"""What a filter or a transform costs the mirror in CPU, per record.

    python -m tests.bench.bench_record_rules [--batches N] [--records N] [--codec lz4]

One flow's selecting and preparing of batches of 450-byte JSON records, as bytes and by rules.
Prints CPU microseconds per record of the source, the least of some rounds.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Final

from local_cluster.records.compress import Codec
from mirror_maker.copy.batch_selection import select_batches
from mirror_maker.copy.passthrough import prepare
from mirror_maker.rules.record_rules import RecordRules, build_rules
from mirror_maker.rules.rule_settings import Condition, JsonTest, KeyTest, RecordFilter, Transform
from tests.bench.bench_coalescing import make_fetches

ROUNDS: Final = 5
_ALL: Final = RecordFilter()
_ROWS: Final[dict[str, RecordRules | None]] = {
    "as bytes": None,
    "a key that matches, kept": build_rules(
        RecordFilter(keep=(Condition(key=KeyTest(matches=".*")),)), ()
    ),
    "a JSON field, kept": build_rules(
        RecordFilter(keep=(Condition(value=JsonTest(json="/carrier")),)), ()
    ),
    "a JSON field, left out": build_rules(
        RecordFilter(drop=(Condition(value=JsonTest(json="/carrier")),)), ()
    ),
    "a JSON field masked": build_rules(_ALL, (Transform(mask_field="/updated_by"),)),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_record_rules")
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--records", type=int, default=100, help="of each batch")
    parser.add_argument("--codec", default="lz4", choices=[each.name.lower() for each in Codec])
    arguments = parser.parse_args()
    fetches = make_fetches(arguments.batches, arguments.records, Codec[arguments.codec.upper()])
    for name, rules in _ROWS.items():
        best = float("inf")
        for _ in range(ROUNDS):
            copies = [bytearray(each) for each in fetches]
            start = time.process_time()
            for fetched in copies:
                for batch in select_batches(memoryview(fetched), 0, (), rules=rules).batches:
                    prepare(batch)
            best = min(best, time.process_time() - start)
        count = arguments.batches * arguments.records
        print(f"{name}: {best / count * 1e6:.2f} CPU us per record")
    return 0


if __name__ == "__main__":
    sys.exit(main())
