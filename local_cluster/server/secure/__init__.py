"""Shells of secured listeners.

- `sasl_session`: who a connection is, and which requests it may send before that.
- `credentials`: what the users of a listener prove themselves by.
- `gss_acceptor`: its Kerberos service; `token_acceptor`: its issuer of tokens; `tls_acceptor`: its
  certificates; `late_imports`: the last two, which only some listeners need.
- `tls_connection`, `tls_outbox`: handshake and decryption, encryption.
"""
