"""`heliograph acl`, `user`, `quota`: rights, users and client quotas of one cluster; `zookeeper`.

In reading order: acl_rows (pure), acl_command; new_password, user_command; quota_words (pure),
quota_command; zookeeper_command. Options, tables and confirmation are those of
`topology/admin/`.
"""
