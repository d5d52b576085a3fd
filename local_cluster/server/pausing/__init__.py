"""Why a connection is not read for some time. The limits of one connection: server/connection.py.

- `mute`: the time in which a quota lets it wait.
- `memory_wait`: what it holds of the memory for requests of all connections, or waits for.
"""
