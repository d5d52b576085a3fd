"""Admin calls: `acls`, `configs` of topics, `group_members`, `group_offsets`, `scram_users`."""
