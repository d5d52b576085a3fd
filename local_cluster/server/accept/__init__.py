"""Which client connections a broker accepts, and how long they may be idle (KIP-612).

- `limits`: the configs. Pure.
- `admission`: counts connections, and decides about a new one. Pure.
- `acceptor`: SHELL: accepts the connections of one listener.
"""
