"""ApiVersions v0-v5.

v3 (KIP-511) is flexible and names the client software, which must match a pattern. A version that
is not served gets the v0 body with error 35 and the range of ApiVersions. v3 also has supported and
finalized features (KIP-584, `features.py`). Before v4 a lowest level of 0 is sent as 1, because
older clients cannot read it (KAFKA-17011). v5 (KIP-1242) names the cluster and broker that the
client means. If it has reached another one, REBOOTSTRAP_REQUIRED lets it start from its bootstrap
servers again. Produce is advertised from version 0 although v0-v2 are refused: otherwise librdkafka
turns compression off (KAFKA-18659). The two APIs of client metrics (KIP-714) are advertised only
with a receiver of them, as in Kafka. Those of stored credentials, which Kafka lacks, are advertised
with an authorizer on listeners with TLS: so a mirror finds out whether a broker serves them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from local_cluster.features import FEATURES, FINALIZED_EPOCH
from local_cluster.handlers.registry import Handler, advertised_apis, all_apis, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

if TYPE_CHECKING:
    from local_cluster.wire.responses.cluster import ApiVersionsResponse
    from local_cluster.wire.schemas.kafka_4_4_messages import ApiVersionsRequest

DESTINATION_SINCE: Final = 5
LEVEL_ZERO_SINCE: Final = 4
SOFTWARE_NAME_SINCE: Final = 3
STORED_CREDENTIALS: Final = (ApiKey.READ_STORED_CREDENTIALS, ApiKey.WRITE_STORED_CREDENTIALS)
TELEMETRY: Final = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
UNKNOWN_EPOCH: Final = -1
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@handles(ApiKey.API_VERSIONS, min_version=0, max_version=5)
def api_versions(
    broker: BrokerServices, context: RequestContext, request: ApiVersionsRequest | None
) -> ApiVersionsResponse | bytes:
    """Return what is served; `request` is None if its version is not."""
    if request is None:
        only = [api for api in advertised_apis() if api.api_key == ApiKey.API_VERSIONS]
        return _served(ErrorCode.unsupported_version, only, context.api_version)
    if not _is_valid(context.api_version, request):
        return _refused(ErrorCode.invalid_request)
    if context.api_version >= DESTINATION_SINCE and not _is_meant(broker, request):
        return _refused(ErrorCode.rebootstrap_required)
    if context.api_version >= SOFTWARE_NAME_SINCE:
        broker.client_metrics.connections.name_software(
            context.connection_id, request.client_software_name, request.client_software_version
        )
    access = broker.credential_access
    return _encoded(
        context.api_version,
        broker.client_metrics.is_enabled,
        access is not None and access.is_served_on(context.listener),
    )


@lru_cache(maxsize=16)
def _encoded(version: int, with_telemetry: bool, with_credentials: bool) -> bytes:
    """Return what every new connection is told. To encode it costs a quarter of a login."""
    apis = [api for api in advertised_apis() if with_telemetry or api.api_key not in TELEMETRY]
    if with_credentials:
        apis += [api for api in all_apis() if api.api_key in STORED_CREDENTIALS]
    response = _served(ErrorCode.none, apis, version)
    return messages.encode_response(ApiKey.API_VERSIONS, version, response)


def _served(error: ErrorCode, apis: Sequence[Handler], version: int) -> ApiVersionsResponse:
    return {
        "error_code": error,
        "api_keys": [
            {
                "api_key": api.api_key,
                "min_version": api.advertised_min_version,
                "max_version": api.max_version,
            }
            for api in apis
        ],
        "supported_features": [
            {
                "name": feature.name,
                "min_version": feature.level_min
                if version >= LEVEL_ZERO_SINCE
                else max(feature.level_min, 1),
                "max_version": feature.level_max,
            }
            for feature in FEATURES
        ],
        "finalized_features_epoch": FINALIZED_EPOCH,
        "finalized_features": [
            {
                "name": feature.name,
                "min_version_level": feature.level_finalized,
                "max_version_level": feature.level_finalized,
            }
            for feature in FEATURES
            if feature.level_finalized > 0
        ],
    }


def _is_valid(version: int, request: ApiVersionsRequest) -> bool:
    if version >= DESTINATION_SINCE and (request.cluster_id is None) != (request.node_id == -1):
        return False  # both or none are known
    return version < SOFTWARE_NAME_SINCE or bool(
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    )


def _is_meant(broker: BrokerServices, request: ApiVersionsRequest) -> bool:
    """Return whether the client means this broker, or does not say which one it means."""
    meant = request.cluster_id, request.node_id
    return meant in ((None, -1), (broker.metadata.cluster_id, broker.settings.broker_id))


def _refused(error: ErrorCode) -> ApiVersionsResponse:
    return {"error_code": error, "api_keys": (), "finalized_features_epoch": UNKNOWN_EPOCH}
