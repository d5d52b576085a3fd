"""`heliograph acl`, `user` and `quota`: the rights, users and client quotas of one cluster.

In reading order: acl_rows (pure), acl_command; new_password, user_command; quota_words (pure),
quota_command. Options, tables and confirmation are those of
`topology/admin/`.
"""
