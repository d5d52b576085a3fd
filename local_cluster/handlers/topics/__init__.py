"""Topics and their partitions: creation, deletion, elections, reassignments, log directories."""
