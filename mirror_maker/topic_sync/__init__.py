"""topic_sync."""
