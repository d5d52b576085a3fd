"""Authentication on the brokers' side; pure but for `user_store`, `tls_contexts` and
`oauth/signing_keys`.

- `listener_security`: the settings of a listener, TLS and SASL.
- `tls_contexts`: certificates and keys, loaded again when their files change.
- `exchanges`: PLAIN and SCRAM, message by message; `scram_credentials`: what is stored of a user.
- `oauth/`: OAUTHBEARER, tokens of an issuer.
- `kerberos/`: GSSAPI, tickets of Kerberos.
- `user_store`: the users in ZooKeeper, followed.
- `distinguished_name`, `principal_rules`: from a client's certificate to its principal.
"""
