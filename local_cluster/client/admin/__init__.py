"""Admin calls: `acls`, `client_quotas`, `configs` of topics, `group_members`, `group_offsets`,
`scram_users`, `stored_credentials`."""
