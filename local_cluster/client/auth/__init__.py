"""How a client authenticates.

- `security`, `secret`: its settings; pure.
- `credentials`: secrets and TLS.
- `sasl`, `session`: SASL on a connection, and its session, which is renewed before it ends.
- `scram`: the messages of SCRAM; pure.
- `scram_transfer`: the requests by which credentials follow along a link; pure.
- `oauth`: tokens.
- `kerberos`: the system's GSSAPI library.
- `zookeeper_security`: a user of ZooKeeper; pure.
- `file_states`: whether files changed.
"""
