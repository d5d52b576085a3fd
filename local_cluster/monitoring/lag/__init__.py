"""The lag of consumer groups, at a scrape.

- `end_offsets`: high watermarks, also of partitions that other brokers lead
- `unread_times`: when the first record that a group has not read was appended
"""
