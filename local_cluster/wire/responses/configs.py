"""Responses of the handlers in `handlers/configs`, as typed mappings.

Generated from kio's schemas by tests/golden/generate/response_types.py: do not edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from local_cluster.wire.errors import ErrorCode


class DescribeConfigsSynonym(TypedDict):
    name: str
    value: str | None
    source: int


class DescribeConfigsResourceResult(TypedDict):
    name: str
    value: str | None
    read_only: bool
    config_source: NotRequired[int]
    is_sensitive: bool
    synonyms: Sequence[DescribeConfigsSynonym]
    config_type: NotRequired[int]
    documentation: NotRequired[str | None]


class DescribeConfigsResult(TypedDict):
    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: Sequence[DescribeConfigsResourceResult]


class DescribeConfigsResponse(TypedDict):
    """DescribeConfigs v1-v4."""

    throttle_time: NotRequired[int]
    results: Sequence[DescribeConfigsResult]


class AlterConfigsResourceResponse(TypedDict):
    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str


class AlterConfigsResponse(TypedDict):
    """AlterConfigs v0-v2."""

    throttle_time: NotRequired[int]
    responses: Sequence[AlterConfigsResourceResponse]


class IncrementalAlterConfigsResponse(TypedDict):
    """IncrementalAlterConfigs v0-v1."""

    throttle_time: NotRequired[int]
    responses: Sequence[AlterConfigsResourceResponse]


class ConfigResource(TypedDict):
    resource_name: str
    resource_type: NotRequired[int]


class ListConfigResourcesResponse(TypedDict):
    """ListConfigResources v0-v1."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode
    config_resources: Sequence[ConfigResource]
