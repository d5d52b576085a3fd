"""group_sync."""
