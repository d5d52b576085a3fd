"""Authentication on the brokers' side; pure but for `user_store`.

- `listener_security`: the settings of a listener, TLS and SASL.
- `exchanges`: PLAIN and SCRAM, message by message; `scram_credentials`: what is stored of a user.
- `user_store`: the users in ZooKeeper, followed.
- `distinguished_name`, `principal_rules`: from a client's certificate to its principal.
"""
