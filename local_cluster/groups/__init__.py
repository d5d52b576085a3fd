"""The group coordinator: groups and committed offsets as replayed records."""
