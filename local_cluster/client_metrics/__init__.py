"""Metrics that clients push to the broker (KIP-714).

- `subscriptions`: what the CLIENT_METRICS configs ask of which clients. Pure
- `instances`: the clients that asked or pushed, and which of their requests are valid. Pure
- `otlp`: a pushed payload as samples. Pure
- `series`: the samples of all clients, bounded. Pure
- `connections`: the software and the port of a client, by connection. Pure
- `receiver`: all of them together, as the handlers and the metrics see it
"""
