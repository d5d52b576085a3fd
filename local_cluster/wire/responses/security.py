"""Responses of the handlers in `handlers/security`, as typed mappings.

Generated from kio's schemas by tests/golden/generate/response_types.py: do not edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from local_cluster.wire.errors import ErrorCode


class SaslHandshakeResponse(TypedDict):
    """SaslHandshake v0-v1."""

    error_code: ErrorCode
    mechanisms: NotRequired[Sequence[str]]


class AclDescription(TypedDict):
    principal: str
    host: str
    operation: int
    permission_type: int


class DescribeAclsResource(TypedDict):
    resource_type: int
    resource_name: str
    pattern_type: NotRequired[int]
    acls: Sequence[AclDescription]


class DescribeAclsResponse(TypedDict):
    """DescribeAcls v1-v3."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode
    error_message: str | None
    resources: Sequence[DescribeAclsResource]


class AclCreationResult(TypedDict):
    error_code: ErrorCode
    error_message: str | None


class CreateAclsResponse(TypedDict):
    """CreateAcls v1-v3."""

    throttle_time: NotRequired[int]
    results: Sequence[AclCreationResult]


class DeleteAclsMatchingAcl(TypedDict):
    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str
    pattern_type: NotRequired[int]
    principal: str
    host: str
    operation: int
    permission_type: int


class DeleteAclsFilterResult(TypedDict):
    error_code: ErrorCode
    error_message: str | None
    matching_acls: Sequence[DeleteAclsMatchingAcl]


class DeleteAclsResponse(TypedDict):
    """DeleteAcls v1-v3."""

    throttle_time: NotRequired[int]
    filter_results: Sequence[DeleteAclsFilterResult]


class SaslAuthenticateResponse(TypedDict):
    """SaslAuthenticate v0-v2."""

    error_code: ErrorCode
    error_message: str | None
    auth_bytes: bytes
    session_lifetime: NotRequired[int]


class EntityData(TypedDict):
    entity_type: str
    entity_name: str | None


class ValueData(TypedDict):
    key: str
    value: float


class DescribeClientQuotasEntryData(TypedDict):
    entity: Sequence[EntityData]
    values: Sequence[ValueData]


class DescribeClientQuotasResponse(TypedDict):
    """DescribeClientQuotas v0-v1."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode
    error_message: str | None
    entries: Sequence[DescribeClientQuotasEntryData] | None


class AlterClientQuotasEntryData(TypedDict):
    error_code: ErrorCode
    error_message: str | None
    entity: Sequence[EntityData]


class AlterClientQuotasResponse(TypedDict):
    """AlterClientQuotas v0-v1."""

    throttle_time: NotRequired[int]
    entries: Sequence[AlterClientQuotasEntryData]


class CredentialInfo(TypedDict):
    mechanism: int
    iterations: int


class DescribeUserScramCredentialsResult(TypedDict):
    user: str
    error_code: ErrorCode
    error_message: str | None
    credential_infos: Sequence[CredentialInfo]


class DescribeUserScramCredentialsResponse(TypedDict):
    """DescribeUserScramCredentials v0."""

    throttle_time: NotRequired[int]
    error_code: ErrorCode
    error_message: str | None
    results: Sequence[DescribeUserScramCredentialsResult]


class AlterUserScramCredentialsResult(TypedDict):
    user: str
    error_code: ErrorCode
    error_message: str | None


class AlterUserScramCredentialsResponse(TypedDict):
    """AlterUserScramCredentials v0."""

    throttle_time: NotRequired[int]
    results: Sequence[AlterUserScramCredentialsResult]
