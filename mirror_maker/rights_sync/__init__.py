"""ACLs of groups and transactional ids, and client quotas, follow their source.

- `rights_plan` (pure): what a round changes, and what mirrors wrote at the source.
- `acl_rules` (pure): which ACLs are created and deleted.
- `quota_rules` (pure): which quotas are set and removed.
- `others_rights`: what mirrors wrote in a cluster, read.
- `rights_planner`: both sides described and compared.
- `rights_syncer`: the rounds of a worker.

A link changes and deletes only what it wrote itself (`formats/written_rights.py`).
"""
