"""`heliograph spark ...`: `command` has its options; the work is in `spark_global`."""
