"""OAUTHBEARER on the brokers' side (KIP-255, KIP-768, RFC 7628): a signed token, no password.

- `settings`: whose tokens a listener takes, and where the issuer's public keys are.
- `token_rules`: whether a token is valid, and for whom; pure.
- `bearer_exchange`: the messages; pure.
- `signing_keys`: the issuer's keys, from a file or by https, loaded again; shell.
"""
