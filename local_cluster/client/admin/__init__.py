"""Admin calls: `acls`, `configs` of topics, `group_members` and `group_offsets`."""
