"""kio's classes of messages: what they need, and what they lack.

- `kio_schema`: checks lengths before kio reads a message; what a field's type says.
- `encoding`: writes mappings as kio writes instances.
- `kio_fixes`: replaces classes of kio that are wrong.
- `kafka_4_4_messages`: versions that kio lacks.
"""
