"""Who may do what: the rights of principals on resources (`authorization/`)."""
