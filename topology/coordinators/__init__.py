"""`heliograph group` and `transaction`: what Kafka's coordinators keep.

In reading order: assignments (pure), listing, unread_times, group_reading, group_reset,
group_command, transaction_reading, transaction_command. Options, tables and confirmation are
those of `topology/admin/`.
"""
