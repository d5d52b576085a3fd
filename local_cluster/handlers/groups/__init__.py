"""Groups: find the coordinator, membership in both protocols, committed offsets, descriptions."""
