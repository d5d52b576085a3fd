"""OAUTHBEARER on the clients' side (KIP-255, KIP-768, KIP-1139): log in by a token.

- `settings`: where tokens come from, and when they are renewed; pure.
- `token_request`: the request to a token endpoint, its answer, and what a token says; pure.
- `token_times`: when a token is renewed; pure.
- `token_source`: the newest token of a process, renewed before it ends; shell.
- `outside_clients`: tokens for aiokafka and librdkafka; shell.
- `java_configs`: the same settings as configs of Java's clients; pure.
"""
