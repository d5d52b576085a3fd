"""Configs, ACLs and deletions of copies follow their sources.

- `sync_plan` (pure), `topic_syncer`: what must change in configs and ACLs; requested and applied.
- `deletion_rules` (pure), `copy_deletion`: copies whose source topics are gone; found and deleted.
"""
