"""`heliograph acl`: the ACLs of one cluster.

In reading order: acl_rows (pure), acl_command. Options, tables and confirmation are those of
`topology/admin/`.
"""
