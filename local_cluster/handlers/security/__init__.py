"""ACLs (with `acl_filters`), and the responses of a Kafka without quotas and SCRAM users."""
