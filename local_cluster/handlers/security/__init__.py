"""ACLs, quotas and SCRAM users: the responses of a Kafka where none of these is set up."""
