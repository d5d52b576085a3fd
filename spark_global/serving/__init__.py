"""Writes a view back to Kafka: each row of it once in a topic, as records.

Reading order:

    positions   what a lane has written, and whether a batch is new to it (pure)
    records     the records of a view: key, value, headers, lane (Spark expressions)
    clients     producers and consumers of librdkafka
    lanes       writes the records of one lane in one transaction, as one task
    serving     `heliograph spark serve`: the query
"""
