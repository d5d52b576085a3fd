"""ACLs of groups and transactional ids, client quotas and SCRAM users follow their source.

- `rights_plan` (pure): what a round changes, and what mirrors wrote at the source.
- `acl_rules` (pure): which ACLs are created and deleted.
- `quota_rules` (pure): which quotas are set and removed.
- `user_rules` (pure): which SCRAM credentials are set and removed.
- `others_rights`: what mirrors wrote in a cluster, read.
- `rights_planner`: both sides described and compared.
- `user_writer`: keys read at the source, and set at the target.
- `rights_syncer`: the rounds of a worker.

A link changes and deletes only what it wrote itself (`formats/written_rights.py`).
"""
