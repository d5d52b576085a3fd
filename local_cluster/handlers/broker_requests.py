"""Which requests come from a broker of this cluster. Everything private asks this, on any listener.

With a secured inter-broker listener only the principal counts (CVE-2018-1288): replica fetches,
AlterPartition, WriteTxnMarkers and private APIs of any other client are refused, wherever they
arrive. A PLAINTEXT inter-broker listener has no principals, so there its name is trusted. The name
of the former one is trusted too while the brokers of a cluster move to another listener.
"""

from __future__ import annotations

from local_cluster.handlers.services import BrokerServices, RequestContext


def is_broker_connection(broker: BrokerServices, context: RequestContext) -> bool:
    """Return whether the client of a request has proved to be a broker, or need not."""
    settings = broker.settings
    if context.principal in settings.broker_principals:
        return True
    return context.listener in settings.trusted_listeners


def is_from_broker(broker: BrokerServices, context: RequestContext) -> bool:
    """Return whether the client of a request is a broker that may act on the cluster.

    An authorizer counts principals of brokers as super users.
    """
    return is_broker_connection(broker, context) and broker.authorize(
        context, "CLUSTER_ACTION", "CLUSTER", "kafka-cluster"
    )


def may_write_markers(broker: BrokerServices, context: RequestContext) -> bool:
    """Return whether a client may end transactions of others.

    Without secured brokers that is a right of tools too, such as `kafka-transactions abort`.
    """
    if not broker.settings.trusts_listener_name:
        return is_from_broker(broker, context)
    return broker.holds(context, "ALTER", "CLUSTER", "kafka-cluster") or broker.authorize(
        context, "CLUSTER_ACTION", "CLUSTER", "kafka-cluster"
    )
