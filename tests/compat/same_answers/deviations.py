"""Where our answers differ from Kafka 4.4's, and why: the only differences that pass.

Left out of the cases, because Kafka never answers them: null records in Produce (ours:
INVALID_RECORD), and a resource that AlterConfigs names twice (ours: INVALID_REQUEST, as
IncrementalAlterConfigs has it).
"""

from __future__ import annotations

from typing import Final

from tests.compat.same_answers.case import Deviation

BYTES: Final = (
    Deviation(
        "metadata v1 negative array: *",
        "a length below -1 closes the connection; Kafka takes it for null",
    ),
    Deviation(
        "metadata v9 huge array: *",
        "a length above 2^31 closes the connection; Kafka takes it for a negative one, so for null",
    ),
    Deviation(
        "metadata v1 not UTF-8: *",
        "a string that is not UTF-8 closes the connection; Kafka puts U+FFFD into it",
    ),
)

METADATA: Final = (
    Deviation(
        "metadata v1[23] by zero id: *",
        "a topic with neither name nor id is UNKNOWN_TOPIC_ID; Kafka meets an exception of its own",
    ),
    Deviation(
        "topic page illegal name: */error_code",
        "an illegal topic name is INVALID_TOPIC_EXCEPTION; Kafka meets an exception of its own",
    ),
)

PRODUCE: Final = (
    Deviation(
        "produce v*: */error_message",
        "a refusal says in words what is wrong; Kafka mostly leaves that to the code",
    ),
    Deviation(
        "produce v* acks=1 a byte too many: *",
        "bytes behind the batch are INVALID_RECORD; Kafka drops them and appends the rest",
    ),
    Deviation(
        "produce v* acks=1 unknown codec: */error_code",
        "UNSUPPORTED_COMPRESSION_TYPE; Kafka meets an exception of its own",
    ),
    Deviation(
        "produce v* acks=1 log append time: *",
        "a producer that sets the bit is refused; Kafka clears it and so changes visible times",
    ),
    Deviation(
        "produce v* acks=1 no timestamp: *",
        "a largest timestamp below the base is refused if it is no record's; Kafka corrects it",
    ),
    Deviation(
        "produce v* in two hours: */batch_index_error_message",
        "other words, and another moment's clock",
    ),
    Deviation(
        "produce v* partition twice: *",
        "both batches are appended and answered; Kafka drops the first",
    ),
    Deviation(
        "produce v* negative timeout: *",
        "acks=all waits for the disk; Kafka does not, so it is done before the time is up",
    ),
    Deviation(
        "produce v* producer of nobody: */log_append_time",
        "the second version asked repeats the first: a duplicate is told no append time, and by"
        " Kafka the time of the batch",
    ),
    *(
        Deviation(
            f"produce v* acks=1 {what}: */log_start_offset",
            "told with every refusal by the log; Kafka leaves it out where it saw no batch",
        )
        for what in (
            "one byte",
            "header cut short",
            "records cut short",
            "two batches",
            "magic [01]",
            "length too large",
        )
    ),
)

FETCH: Final = (
    Deviation(
        "fetch v* replica 5: *",
        "followers are brokers of this cluster, which fetch by topic id over the inter-broker"
        " listener; a stranger there reads, and what it has read counts for nothing",
    ),
    Deviation(
        "fetch v1[3-8] good and bad: */responses",
        "one entry for a topic; Kafka begins a new one where a partition was not found",
    ),
    Deviation(
        "fetch v* negative bytes*: *",
        "a negative limit is none at all, so the first batch comes; Kafka meets an exception",
    ),
)

ADMIN: Final = (
    Deviation(
        "create topics v* too many replicas: */error_message",
        "Kafka mentions cordoned directories, which do not exist here",
    ),
    Deviation(
        "create topics v*: */configs/*/config_source",
        "min.insync.replicas is a default here, and a dynamic default in a new Kafka cluster",
    ),
    Deviation(
        "describe configs v* all brokers: */configs",
        "as above: Kafka sets min.insync.replicas for all brokers when a cluster is made",
    ),
    Deviation(
        "describe configs v* type *: */error_message",
        "our words name the type",
    ),
    Deviation(
        "create partitions v* far too many: *",
        "POLICY_VIOLATION as in CreateTopics; Kafka meets an exception of its own",
    ),
    Deviation(
        "*alter configs v* unknown config of a broker: *",
        "an unknown name is refused with the nearest one; Kafka keeps it for plugins",
    ),
    Deviation(
        "incremental alter configs v* operation: *",
        "an unknown operation is INVALID_REQUEST; Kafka meets an exception of its own",
    ),
)

DEVIATIONS: Final = (*BYTES, *METADATA, *PRODUCE, *FETCH, *ADMIN)
