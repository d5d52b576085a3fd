"""What a principal may do, by ACLs (KIP-11, KIP-290).

In reading order: `hosts` (addresses and CIDR blocks), `acl_image` (every ACL, immutable and
indexed), `decision` (the decisions of Kafka 4.4's StandardAuthorizer).
"""
