"""A broker imports what only secured listeners need when it has one."""

from __future__ import annotations

import subprocess
import sys


def test_a_broker_of_plain_listeners_imports_no_library_for_certificates_or_tokens() -> None:
    program = (
        "import sys, local_cluster.server.process\n"
        "heavy = {'aiohttp', 'cryptography', 'joserfc', 'opentelemetry'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert said.stdout.decode().strip() == "[]"
