"""Shells of secured listeners.

- `sasl_session`: who a connection is, and which requests it may send before that.
- `credentials`: what the users of a listener prove themselves by.
- `gss_acceptor`: its Kerberos service.
- `tls_connection`, `tls_outbox`: handshake and decryption, encryption.
"""
