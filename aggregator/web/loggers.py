"""The handlers of /api/v1/loggers: the loggers of the process, and their levels."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from aggregator.web import parameters
from aggregator.web.problems import bad_parameter, not_found
from local_cluster.log_levels import (
    UnknownLogger,
    WrongLevel,
    logger_level,
    logger_levels,
    read_level,
    set_level,
)

LOGGER: Final = "logger"
"""The part of the path that names a logger."""

routes = web.RouteTableDef()


@routes.get("/api/v1/loggers")
async def get_loggers(request: web.Request) -> web.Response:
    """Return every logger with its level."""
    parameters.check_names(request.query, ())
    return web.json_response({"loggers": [each._asdict() for each in logger_levels()]})


@routes.get("/api/v1/loggers/{logger}")
async def get_logger(request: web.Request) -> web.Response:
    """Return one logger with its level."""
    parameters.check_names(request.query, ())
    try:
        found = logger_level(request.match_info[LOGGER])
    except UnknownLogger as error:
        raise not_found(LOGGER, error.sentence, error.nearest) from error
    return web.json_response(found._asdict())


@routes.put("/api/v1/loggers/{logger}")
async def put_logger(request: web.Request) -> web.Response:
    """Set the level of one logger until the process ends."""
    parameters.check_names(request.query, ())
    try:
        level = read_level(await request.read())
        changed = set_level(request.match_info[LOGGER], level, by=f"{request.remote}, over HTTP")
    except UnknownLogger as error:
        raise not_found(LOGGER, error.sentence, error.nearest) from error
    except WrongLevel as error:
        raise bad_parameter("level", error.sentence, error.nearest) from error
    return web.json_response(changed._asdict())
