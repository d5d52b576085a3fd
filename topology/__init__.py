"""Composition root: the topology file, what runs for it, and the `heliograph` command."""
