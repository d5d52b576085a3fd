"""Authentication on the brokers' side. Pure.

- `listener_security`: the settings of a listener, TLS and SASL.
- `distinguished_name`, `principal_rules`: from a client's certificate to its principal.
"""
