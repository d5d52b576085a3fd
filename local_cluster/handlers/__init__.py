"""One file per API of the Kafka protocol, each registered with its range of versions."""
