"""What is in keys and values: JSON, Avro and Protobuf, as columns.

A record that does not decode is a reject with its reason. Decoded records and rejects are together
all records.

Reading order:

    declaring        what a user declares: formats, schema files, registries
    not_decodable    why a value does not decode
    header           the header that serializers of schema registries write (pure)
    formats/         values of each format to Arrow columns
    fetched          a schema as a registry returns it (pure)
    registry         a Confluent-compatible schema registry, per datacenter
    writers          the schemas that wrote values, each prepared once (pure)
    record_decoder   picks the reader of each record
    pinning          schemas are read from files once, or written to them
    batches          decodes batches of records in a task
    frames           DataFrames of decoded records and of rejects
"""
