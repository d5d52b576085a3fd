"""Error responses of the HTTP API, in one JSON shape with a helpful message.

{"error": "<kind>", "message": "...", "parameter": "..." | null, "did_you_mean": "..." | null}
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web


class Problem(Exception):
    """An error response to a request."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        *,
        parameter: str | None = None,
        did_you_mean: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.parameter = parameter
        self.did_you_mean = did_you_mean
        self.headers = headers

    def response(self) -> web.Response:
        """Return the response."""
        hint = f"; did you mean {self.did_you_mean!r}?" if self.did_you_mean else ""
        return web.json_response(
            {
                "error": self.kind,
                "message": self.message + hint,
                "parameter": self.parameter,
                "did_you_mean": self.did_you_mean,
            },
            status=self.status,
            headers=self.headers,
        )


def bad_parameter(parameter: str, message: str, did_you_mean: str | None = None) -> Problem:
    """Return 400: a query parameter is missing, unknown or invalid."""
    return Problem(400, "bad_parameter", message, parameter=parameter, did_you_mean=did_you_mean)


def not_found(parameter: str, message: str, did_you_mean: str | None = None) -> Problem:
    """Return 404: a parameter names something that does not exist."""
    return Problem(404, "not_found", message, parameter=parameter, did_you_mean=did_you_mean)


def not_loaded(message: str, *, retry_after_seconds: int) -> Problem:
    """Return 503: the answer is not known yet."""
    return Problem(503, "not_loaded", message, headers={"Retry-After": str(retry_after_seconds)})
