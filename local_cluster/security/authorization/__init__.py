"""What a principal may do, by ACLs (KIP-11, KIP-290, KIP-1276).

In reading order:

- pure: `hosts` (addresses and CIDR blocks), `acl_image` (every ACL, immutable and indexed);
- pure: `reserved_names` (those of mirrors), `decision` (those of Kafka 4.4's authorizer),
  `policy` (the broker's configs);
- for requests: `authorizer` (remembers decisions), `denials` (their log and counts);
- `acl_filter`, `new_acls`: what the APIs of ACLs ask for, and its checks;
- `credential_access`: who reads and sets stored SCRAM credentials for links;
- `mirror_producers`: the producer ids that only mirrors may write with, in ZooKeeper;
- in ZooKeeper: `acl_znodes` (paths and payloads of Kafka 3.9.1), `acl_store` (read, followed and
  changed), `acl_changes` (creates and deletes for the APIs).
"""
