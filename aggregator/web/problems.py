"""Refusals of the HTTP API: one JSON shape, always with words that help.

{"error": "<kind>", "message": "...", "parameter": "..." | null, "did_you_mean": "..." | null}
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web


class Problem(Exception):
    """A request that is answered with an error status."""

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
        """The answer to send."""
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
    """400: a query parameter is missing, unknown or not what it should be."""
    return Problem(400, "bad_parameter", message, parameter=parameter, did_you_mean=did_you_mean)


def not_found(parameter: str, message: str, did_you_mean: str | None = None) -> Problem:
    """404: a parameter names something that is not there."""
    return Problem(404, "not_found", message, parameter=parameter, did_you_mean=did_you_mean)


def not_loaded(message: str, *, retry_after_seconds: int) -> Problem:
    """503: the answer will be known, but is not yet."""
    return Problem(503, "not_loaded", message, headers={"Retry-After": str(retry_after_seconds)})
