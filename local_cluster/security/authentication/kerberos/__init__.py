"""GSSAPI on the brokers' side: Kerberos tickets, and the users that they are for.

- `settings`: the keytab of a listener, its service, and the rules for names; pure.
- `short_names`: from a principal to a user's name, as Kafka does it; pure.
- `gss_exchange`: the messages of GSSAPI (RFC 4752); pure.
"""
