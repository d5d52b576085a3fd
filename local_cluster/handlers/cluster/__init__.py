"""The cluster: ApiVersions, Metadata and descriptions for clients, and requests between brokers.

Between brokers, on the inter-broker listener only: `p56_alter_partition`, and the private APIs
`cluster_delta` and `hand_over`.
"""
