"""The disk below the logs: everything that touches the operating system.

In reading order: `files` (the port `Files`), `disk_work` (work for worker threads), `disk_health`
(healthy, full, failed), `page_cache` (what a read would wait for), `cold_reads` (loads
such ranges beside the loop), `file_system` (syncfs).
"""
