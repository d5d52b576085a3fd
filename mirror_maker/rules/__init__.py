"""The rules of a link as pure functions: what it copies, from where on, and how it meets trouble.

topic_filter     which topics a link selects
start_position   the setting `start`: where a partition begins
rule_settings    the settings `filter` and `transform`
record_rules     those settings, applied to one record
json_pointer     fields of JSON text, found and edited
gap_ranges       source offsets that are not copied, as ranges
trouble          what can stop a partition, and the policy for each
"""
