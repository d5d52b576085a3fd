"""Shells of secured listeners.

- `tls_contexts`: certificates and keys, loaded again when their files change.
- `tls_connection`, `tls_outbox`: handshake and decryption, encryption.
"""
