"""ACLs (with `acl_filters`), SASL, SCRAM users and client quotas.

For links between clusters of ours: `read_stored_credentials`, `write_stored_credentials`.
"""
