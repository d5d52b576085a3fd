"""The mirror: copies topics between clusters, exactly once, and keeps an exact offset map."""
