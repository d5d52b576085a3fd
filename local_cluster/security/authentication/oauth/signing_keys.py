"""SHELL: the public keys of an issuer, from a file or by https, loaded again when they may change.

Keys that cannot be loaded are logged, and the last usable ones stay. Before the first ones nobody
gets in.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aiohttp import ClientError, ClientSession, ClientTimeout, StreamReader, TCPConnector
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from local_cluster.client.auth.file_states import file_states
from local_cluster.client.auth.security import SecurityError
from local_cluster.security.authentication.oauth.settings import OauthSettings

KEY_SET_BYTES_MAX: Final = 1024 * 1024
REQUEST_SECONDS_MAX: Final = 10.0
REFRESH_SECONDS_MIN: Final = 10.0
"""Between two requests, however many tokens have unknown keys."""
RETRY_SECONDS_MAX: Final = 10.0

log = logging.getLogger(__name__)


class SigningKeys:
    """The keys of one listener's issuer."""

    def __init__(self, listener: str, settings: OauthSettings) -> None:
        """Load a file. Raises SecurityError that names the listener and the file."""
        self._listener = listener
        self._settings = settings
        self._keys: KeySet | None = None
        self._states = file_states(self._files)
        self._is_asked = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        if settings.keys_file is not None:
            try:
                self._keys = load_keys(settings.keys_file)
            except SecurityError as error:
                raise SecurityError(f"listener {listener}: {error}") from error

    def newest(self) -> KeySet | None:
        """Return the keys, None before the first ones."""
        states = file_states(self._files)
        if states != self._states:
            self._states = states
            try:
                self._keys = load_keys(self._files[0])
                log.info("listener %s: keys of tokens loaded again", self._listener)
            except SecurityError as error:
                log.error("listener %s keeps its keys of tokens: %s", self._listener, error)
        return self._keys

    def ask(self) -> None:
        """Load the keys soon, because a token has an unknown one."""
        self._is_asked.set()

    def start(self) -> None:
        """Follow `keys_url`, if there is one."""
        if self._settings.keys_url is not None and self._following is None:
            self._following = asyncio.create_task(self._follow(self._settings.keys_url))

    def stop(self) -> None:
        """Follow no more."""
        if self._following is not None:
            self._following.cancel()
            self._following = None

    @property
    def _files(self) -> tuple[str, ...]:
        return () if self._settings.keys_file is None else (self._settings.keys_file,)

    async def _follow(self, url: str) -> None:
        while True:
            retrying = AsyncRetrying(
                retry=retry_if_exception_type(SecurityError),
                wait=wait_random_exponential(multiplier=0.1, max=RETRY_SECONDS_MAX),
                before_sleep=lambda state: log.error(
                    "listener %s: %s", self._listener, state.outcome and state.outcome.exception()
                ),
            )
            self._is_asked.clear()
            self._keys = await retrying(request_keys, url, self._settings.keys_ca_file)
            await asyncio.sleep(REFRESH_SECONDS_MIN)
            more_s = self._settings.keys_refresh_seconds - REFRESH_SECONDS_MIN
            try:
                async with asyncio.timeout(max(more_s, 0.0)):
                    await self._is_asked.wait()
            except TimeoutError:
                pass


def load_keys(path: str) -> KeySet:
    """Read a key set. Raises SecurityError that names the file."""
    try:
        with Path(path).open("rb") as file:
            return parse_keys(file.read(KEY_SET_BYTES_MAX + 1))
    except (OSError, ValueError) as error:
        raise SecurityError(f"keys of tokens in {path}: {error}") from error


async def request_keys(url: str, ca_file: str | None) -> KeySet:
    """Ask an https address for its key set, without redirects. Raises SecurityError.

    A compressed answer is not opened: it could be larger in memory than its limit of bytes.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
        async with (
            ClientSession(
                connector=TCPConnector(ssl=context),
                timeout=ClientTimeout(total=REQUEST_SECONDS_MAX),
                headers={"Accept-Encoding": "identity"},
                auto_decompress=False,
            ) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            if response.status != 200:
                raise ValueError(f"HTTP status {response.status}")
            return parse_keys(await _read(response.content))
    except (ClientError, OSError, TimeoutError, ValueError) as error:
        raise SecurityError(f"keys of tokens at {url}: {error or type(error).__name__}") from error


async def _read(content: StreamReader) -> bytes:
    """Read until the end, but no more than a key set may have."""
    found = bytearray()
    while len(found) <= KEY_SET_BYTES_MAX and (more := await content.read(64 * 1024)):
        found += more
    return bytes(found)


def parse_keys(content: bytes) -> KeySet:
    """Return the public keys of a key set that may verify signatures. Raises ValueError."""
    if len(content) > KEY_SET_BYTES_MAX:
        raise ValueError(f"more than {KEY_SET_BYTES_MAX} bytes")
    try:
        document = json.loads(content)
        if not isinstance(document, Mapping) or not isinstance(document.get("keys"), list):
            raise ValueError("not a JSON Web Key Set: expected an object with a list `keys`")
        # A symmetric key is a secret, which has no business in a set of public keys.
        wanted = [each for each in document["keys"] if each.get("kty") != "oct"]
        return KeySet.import_key_set({"keys": wanted})
    except (JoseError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no usable key: {type(error).__name__}") from error
