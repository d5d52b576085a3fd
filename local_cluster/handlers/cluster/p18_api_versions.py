"""ApiVersions v0-v4.

v3 (KIP-511) is flexible and names the client software, which must match a pattern. A version that
is not served gets the v0 body with error 35 and the range of ApiVersions. v3 also has supported and
finalized features (KIP-584, `features.py`). Before v4 a lowest level of 0 is sent as 1, because
older clients cannot read it (KAFKA-17011). Produce is advertised from version 0 although v0-v2 are
refused: otherwise librdkafka turns compression off (KAFKA-18659).

Deviations: v5 (KIP-1242) is not served.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from local_cluster.features import FEATURES, FINALIZED_EPOCH
from local_cluster.handlers.registry import advertised_apis, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.schema.api_versions.v4.request import ApiVersionsRequest

    from local_cluster.wire.responses.cluster import ApiVersionsResponse

LEVEL_ZERO_SINCE: Final = 4
SOFTWARE_NAME_SINCE: Final = 3
UNKNOWN_EPOCH: Final = -1
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@handles(ApiKey.API_VERSIONS, min_version=0, max_version=4)
def api_versions(
    broker: BrokerServices, context: RequestContext, request: ApiVersionsRequest | None
) -> ApiVersionsResponse:
    """Return what is served; `request` is None if its version is not."""
    error = ErrorCode.none
    if request is None:
        error = ErrorCode.unsupported_version
    elif context.api_version >= SOFTWARE_NAME_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return {
            "error_code": ErrorCode.invalid_request,
            "api_keys": (),
            "finalized_features_epoch": UNKNOWN_EPOCH,
        }
    apis = advertised_apis()
    if error is ErrorCode.unsupported_version:
        apis = [api for api in apis if api.api_key == ApiKey.API_VERSIONS]
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
                if context.api_version >= LEVEL_ZERO_SINCE
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
