"""The HTTP API and the page of an aggregator, on aiohttp.

Reading order:

    app         the application and its middleware
    routes      the handlers of /api/v1
    health      /healthz, /readyz, /metrics and the page
    loggers     the handlers of /api/v1/loggers
    parameters  query parameters as typed values
    offset_batch  many offsets to translate in one request
    views       JSON documents (pure)
    openapi/    the OpenAPI document
    page        HTML of the page (pure)
    problems    error responses
"""
