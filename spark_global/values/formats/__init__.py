"""Values of each format to Arrow columns.

Reading order:

    shapes           objects to columns, with strict types (pure)
    json_schema      JSON Schema as shapes (pure)
    json_inference   a JSON Schema from sample values (pure)
    json_values      JSON texts to objects (pure)
    avro_schema      Avro schemas as shapes (pure)
    avro_values      Avro values to objects, a batch in one call
    protobuf_schema  Protobuf messages as shapes (pure)
    protobuf_values  Protobuf values to messages (pure)
"""
