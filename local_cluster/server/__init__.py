"""The asyncio shell of a broker: sockets, connections, group commit, the process."""
