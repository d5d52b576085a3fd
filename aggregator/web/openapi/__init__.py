"""The OpenAPI document of the HTTP API.

- `answers`, `observations`, `workers`: the answers, as types.
- `operations`: the addresses: their parameters, answers and errors.
- `document`: the document, from the two.
"""
