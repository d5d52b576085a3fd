"""The fields of responses as typed mappings, one module for each room of `handlers/`.

`cluster`, `configs`, `data`, `groups`, `security`, `topics` and `transactions`: a handler returns
such a mapping, and `messages` encodes it in the version of the request. So mypy sees a field that
is wrong or missing. The modules are generated from kio's schemas by
`tests/golden/generate/response_types.py`; a field of milliseconds is a plain integer.
"""
