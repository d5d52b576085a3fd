"""ApiVersions v0-v4.

v3 (KIP-511) is flexible and names the client software, which must match a pattern; a version
that is not served is answered with the v0 body, error 35 and the range of ApiVersions in it.
v3 also tells supported and finalized features (KIP-584), which are in `features.py`; before v4 a
lowest level of 0 is told as 1, because clients of that age cannot read it (KAFKA-17011). Produce
is advertised from version 0 although v0-v2 are refused, because librdkafka otherwise turns
compression off (KAFKA-18659).

Deviations: v5 (KIP-1242) is not served.
"""

from __future__ import annotations

import re
from typing import Any, Final

from local_cluster.features import FEATURES, FINALIZED_EPOCH
from local_cluster.handlers.registry import Reply, advertised_apis, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

VERSION_WITH_LEVEL_ZERO: Final = 4

UNKNOWN_EPOCH: Final = -1
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@handles(ApiKey.API_VERSIONS, min_version=0, max_version=4)
def api_versions(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Tell what is served; `request` is None where its version was not."""
    error = ErrorCode.none
    if request is None:
        error = ErrorCode.unsupported_version
    elif context.api_version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        error = ErrorCode.invalid_request
    if error == ErrorCode.invalid_request:
        return {"error_code": error, "finalized_features_epoch": UNKNOWN_EPOCH}
    apis = advertised_apis()
    if error == ErrorCode.unsupported_version:
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
                if context.api_version >= VERSION_WITH_LEVEL_ZERO
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
