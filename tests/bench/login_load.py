"""SCRAM logins at a pace, by a client that derives each password once.

    python -m tests.bench.login_load --port 9093 --user storm --password-file FILE --per-second 250

A login is a connection, ApiVersions, SaslHandshake and two SaslAuthenticate; then the connection is
closed. The keys of a salt are kept, so a login costs this client some HMACs. Logins are due evenly
spaced, and one that is late is done at once. Prints JSON: what was done, and what it cost.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import secrets
import socket
import ssl
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from local_cluster.client.auth.scram import HASHES, salted_password
from tests.bench import raw_frames
from tests.bench.raw_client import RawConnection

MECHANISM: Final = "SCRAM-SHA-512"
ADDRESS_LOGINS: Final = 5_000
"""After so many the next address of the loopback network is the client's: closed connections keep
their ports for a minute."""
ADDRESSES: Final = 200
_CHANNEL: Final = base64.b64encode(b"n,,").decode()


class _Keys(NamedTuple):
    """What a client computes from a salted password."""

    client_key: bytes
    stored_key: bytes
    server_key: bytes


class CachedScram:
    """One user, who logs in again and again."""

    def __init__(self, user: str, password: str) -> None:
        self._user = user
        self._password = password
        self._hash = HASHES[MECHANISM]
        self._keys: dict[tuple[str, str], _Keys] = {}

    def first(self) -> tuple[str, bytes]:
        """The first message without its header, and with it."""
        bare = f"n={self._user},r={secrets.token_hex(12)}"
        return bare, f"n,,{bare}".encode()

    def final(self, bare: str, server_first: bytes) -> tuple[bytes, bytes]:
        """The final message, and the answer that proves the server."""
        text = server_first.decode()
        nonce, salt, iterations = (part[2:] for part in text.split(","))
        keys = self._keys_of(salt, iterations)
        without_proof = f"c={_CHANNEL},r={nonce}"
        signed = f"{bare},{text},{without_proof}".encode()
        signature = hmac.digest(keys.stored_key, signed, self._hash)
        proof = bytes(a ^ b for a, b in zip(keys.client_key, signature, strict=True))
        expected = hmac.digest(keys.server_key, signed, self._hash)
        return (
            f"{without_proof},p={base64.b64encode(proof).decode()}".encode(),
            b"v=" + base64.b64encode(expected),
        )

    def _keys_of(self, salt: str, iterations: str) -> _Keys:
        known = self._keys.get((salt, iterations))
        if known is None:
            salted = salted_password(
                self._hash, self._password, base64.b64decode(salt), int(iterations)
            )
            client_key = hmac.digest(salted, b"Client Key", self._hash)
            known = self._keys[salt, iterations] = _Keys(
                client_key,
                hashlib.new(self._hash, client_key).digest(),
                hmac.digest(salted, b"Server Key", self._hash),
            )
        return known


class Logins:
    """Logs one user in to one listener."""

    def __init__(self, port: int, scram: CachedScram, context: ssl.SSLContext | None) -> None:
        self._port = port
        self._scram = scram
        self._context = context
        self._api_versions = raw_frames.api_versions_frame()
        self._handshake = raw_frames.sasl_handshake_frame(MECHANISM)

    def once(self, source: str) -> None:
        """Log in from an address, and close. Raises OSError, RuntimeError."""
        used = socket.create_connection(("127.0.0.1", self._port), 30, (source, 0))
        if self._context is not None:
            used = self._context.wrap_socket(used, server_hostname="127.0.0.1")
        connection = RawConnection.over(used)
        try:
            connection.call(self._api_versions)
            connection.call(self._handshake)
            bare, message = self._scram.first()
            answer = connection.call(raw_frames.sasl_authenticate_frame(message))
            final, expected = self._scram.final(bare, raw_frames.sasl_message(answer))
            answer = connection.call(raw_frames.sasl_authenticate_frame(final))
            if raw_frames.sasl_message(answer) != expected:
                raise RuntimeError("the broker does not know the password")
        finally:
            connection.close()

    def at_pace(self, per_second: float, seconds: float, worker: int) -> int:
        """Log in for so long; how many logins were done."""
        done = 0
        start = time.perf_counter()
        while (now := time.perf_counter()) - start < seconds:
            ahead = start + done / per_second - now
            if ahead > 0:
                time.sleep(ahead)
            self.once(f"127.0.{1 + worker % 250}.{1 + done // ADDRESS_LOGINS % ADDRESSES}")
            done += 1
        return done


def main() -> int:
    """Log in for a while; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--user", required=True)
    parser.add_argument("--password-file", type=Path, required=True)
    parser.add_argument("--ca-file", type=Path)
    parser.add_argument("--per-second", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--worker", type=int, default=0, help="its addresses are its own")
    options = parser.parse_args()
    context = options.ca_file and ssl.create_default_context(cafile=options.ca_file)
    scram = CachedScram(options.user, options.password_file.read_text().strip())
    logins = Logins(options.port, scram, context)
    done = logins.at_pace(options.per_second, options.seconds, options.worker)
    print(json.dumps({"logins": done, "cpu_seconds": time.process_time()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
