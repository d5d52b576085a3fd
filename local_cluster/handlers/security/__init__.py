"""ACLs (with `acl_filters`), SASL, SCRAM users and client quotas."""
