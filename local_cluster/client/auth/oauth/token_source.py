"""SHELL: the newest token of this process, renewed before it ends.

One source serves every client with the same settings, whatever thread or event loop it runs in.
A request to the endpoint runs in a thread of its own, so neither records nor other clients wait for
it. Its answer is bounded in size and time, and redirects are not followed. A token that is still
valid is used on while its renewal fails.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Final

from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)

from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.oauth.settings import OauthLogin
from local_cluster.client.auth.oauth.token_request import (
    ANSWER_BYTES_MAX,
    Token,
    TokenRefusedError,
    TokenUnavailableError,
    parse_answer,
    parse_token_file,
    token_request,
)
from local_cluster.client.auth.oauth.token_times import renewal_ms
from local_cluster.client.auth.secret import Secret, SecurityError

REQUEST_SECONDS_MAX: Final = 10.0
RETRY_SECONDS_MAX: Final = 3.0
"""In which a request is repeated. Clients have retries of their own, and show the reason."""
RENEWAL_SECONDS_MAX: Final = REQUEST_SECONDS_MAX + RETRY_SECONDS_MAX
RENEWAL_WAIT_SECONDS_MAX: Final = 5.0
"""How long a client with a valid token waits for the next one."""
RETRY_WAIT_SECONDS_MAX: Final = 1.0
PAUSE_SECONDS: Final = 1.0
"""After a failure the endpoint is left alone so long, however many clients ask."""
REFUSED_SECONDS_MIN: Final = 10.0
"""Age of a token from which on a broker's refusal of it asks for another one."""

Request = Callable[[OauthLogin], Token]
"""Get a new token. Raises SecurityError."""

log = logging.getLogger(__name__)


class TokenSource:
    """The tokens of one client ID, one assertion or one file."""

    def __init__(
        self,
        login: OauthLogin,
        request: Request | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        """`request` and `now_ms` replace the endpoint and the clock."""
        self._login = login
        self._request = request or request_token
        self._now_ms = now_ms or (lambda: time.time_ns() // 1_000_000)
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._renewal: Future[Token] | None = None
        self._failure: SecurityError | None = None
        self._failed_ms = 0

    def token(self, wait_seconds: float = RENEWAL_SECONDS_MAX) -> Token:
        """Return a valid token; wait for the endpoint at most so long. Raises SecurityError."""
        found = self._newest()
        if isinstance(found, Token):
            return found
        try:
            return found.result(self._patience(wait_seconds))
        except (SecurityError, FutureTimeout) as error:
            return self._older(error)

    async def token_soon(self, wait_seconds: float = RENEWAL_SECONDS_MAX) -> Token:
        """As `token`, without blocking the event loop. Raises SecurityError."""
        found = self._newest()
        if isinstance(found, Token):
            return found
        try:
            async with asyncio.timeout(self._patience(wait_seconds)):
                return await asyncio.shield(asyncio.wrap_future(found))
        except (SecurityError, TimeoutError) as error:
            return self._older(error)

    def drop(self, value: str) -> None:
        """Forget a token that a broker refuses, unless it is young: keys may have changed."""
        with self._lock:
            token = self._token
            if token is not None and token.value == value:
                age_ms = self._now_ms() - token.starts_ms
                if age_ms >= REFUSED_SECONDS_MIN * 1_000:
                    self._token = None

    def _newest(self) -> Token | Future[Token]:
        """Return the token, or the renewal that is under way. Raises SecurityError."""
        if self._login.token_file is not None:
            return self._request(self._login)
        now_ms = self._now_ms()
        with self._lock:
            token = self._token
            if token is not None and now_ms < self._renewal_ms(token):
                return token
            if self._renewal is not None:
                return self._renewal
            if self._failure is not None and now_ms - self._failed_ms < PAUSE_SECONDS * 1_000:
                if token is not None and token.is_valid(now_ms):
                    return token
                raise self._failure
            renewal: Future[Token] = Future()
            self._renewal = renewal
            renewal.set_running_or_notify_cancel()
        threading.Thread(
            target=self._renew, args=(renewal,), name="heliograph-tokens", daemon=True
        ).start()
        return renewal

    def _renew(self, renewal: Future[Token]) -> None:
        """Get a new token, in a thread."""
        token: Token | None = None
        failure: SecurityError = TokenUnavailableError(f"{self._login.source}: no request made")
        try:
            token = self._request(self._login)
        except SecurityError as error:
            failure = error
        finally:
            # Also after a defect, or clients would wait for ever.
            self._finish(renewal, token, failure)

    def _finish(self, renewal: Future[Token], token: Token | None, failure: SecurityError) -> None:
        if token is not None:
            with self._lock:
                self._renewal, self._failure, self._token = None, None, token
            log.info("%s: a new token of %s", self._login.source, self._login.who)
            renewal.set_result(token)
            return
        with self._lock:
            self._renewal, self._failure = None, failure
            self._failed_ms = self._now_ms()
            is_spare = self._token is not None and self._token.is_valid(self._failed_ms)
        if is_spare:
            log.warning("the last token stays, as there is no new one: %s", failure)
        renewal.set_exception(failure)

    def _renewal_ms(self, token: Token) -> int:
        assert token.ends_ms is not None, "tokens of an endpoint have an end"
        return renewal_ms(token.starts_ms, token.ends_ms, self._login)

    def _patience(self, wait_seconds: float) -> float:
        token = self._token
        if token is not None and token.is_valid(self._now_ms()):
            return min(wait_seconds, RENEWAL_WAIT_SECONDS_MAX)
        return wait_seconds

    def _older(self, error: BaseException) -> Token:
        """Return the last token if it is still valid. Raises SecurityError."""
        token = self._token
        if token is not None and token.is_valid(self._now_ms()):
            return token
        if isinstance(error, SecurityError):
            raise error
        raise TokenUnavailableError(f"{self._login.source} does not answer in time") from None


_SOURCES: Final[dict[OauthLogin, TokenSource]] = {}


def token_source(login: OauthLogin) -> TokenSource:
    """Return the source that all clients of this process with these settings share."""
    return _SOURCES.setdefault(login, TokenSource(login))


# A child process has none of its parent's threads, which a renewal would wait for.
os.register_at_fork(after_in_child=_SOURCES.clear)


def request_token(login: OauthLogin) -> Token:
    """Get a new token, with retries. Raises SecurityError.

    It runs an event loop of its own, so it belongs into a thread without one.
    """
    if login.token_file is not None:
        text = _read(login, Secret(file=login.token_file))
        return parse_token_file(login, text, time.time_ns() // 1_000_000)
    return asyncio.run(_request_with_retries(login))


def _read(login: OauthLogin, secret: Secret) -> str:
    try:
        return read_secret(secret)
    except SecurityError as error:
        raise TokenRefusedError(f"{login.who} gets no token: {error}") from None


async def _request_with_retries(login: OauthLogin) -> Token:
    retrying = AsyncRetrying(
        retry=retry_if_exception_type(TokenUnavailableError),
        wait=wait_random_exponential(multiplier=0.1, max=RETRY_WAIT_SECONDS_MAX),
        stop=stop_after_delay(RETRY_SECONDS_MAX),
        reraise=True,
    )
    found: Token = await retrying(_request_once, login)
    return found


async def _request_once(login: OauthLogin) -> Token:
    from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector  # few need it

    assert login.token_url is not None
    if login.assertion_file is not None:
        secret = _read(login, Secret(file=login.assertion_file)).strip()
    else:
        assert login.client_secret is not None
        secret = _read(login, login.client_secret)
    request = token_request(login, secret)
    starts_ms = time.time_ns() // 1_000_000
    try:
        async with (
            ClientSession(
                connector=TCPConnector(ssl=_tls(login)),
                timeout=ClientTimeout(total=REQUEST_SECONDS_MAX),
                trust_env=False,
                auto_decompress=False,
            ) as session,
            session.post(
                login.token_url,
                data=request.body,
                headers=request.headers,
                allow_redirects=False,
            ) as response,
        ):
            content = bytearray()
            while len(content) <= ANSWER_BYTES_MAX and (
                more := await response.content.read(64 * 1024)
            ):
                content += more
            return parse_answer(login, response.status, bytes(content), starts_ms)
    except TimeoutError:
        why = f"does not answer within {REQUEST_SECONDS_MAX:g} s"
        raise TokenUnavailableError(f"{login.source} {why}") from None
    except (ClientError, OSError, ValueError) as error:
        raise TokenUnavailableError(f"{login.source}: {error or type(error).__name__}") from None


def _tls(login: OauthLogin) -> ssl.SSLContext | bool:
    if not (login.token_url or "").startswith("https://"):
        return False
    try:
        context = ssl.create_default_context(cafile=login.token_ca_file)
    except (OSError, ValueError) as error:
        raise TokenRefusedError(f"certificates of {login.source}: {error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
