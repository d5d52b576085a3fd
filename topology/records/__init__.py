"""`heliograph produce` and `consume`: records of any cluster, and the global view of an aggregate.

In reading order:

    payloads           bytes as text, text, hex or base64; pure
    input_lines        lines to records; pure
    shown_record       records as documents and lines; pure
    clients            aiokafka's options and errors
    production, produce_command
    provenance         where the records of an aggregate come from
    consumption, consume_command
"""
