"""Admin calls: ACLs, configs of topics, members and offsets of groups."""
