"""The disk below the logs: everything that touches the operating system.

In reading order:

    files        the port `Files`, and the real file system behind it
    closing      closes deleted files beside the loop
    disk_work    work for worker threads
    disk_health  healthy, full or failed
    page_cache   the ranges of a file that can be read without the disk
    cold_reads   loads the other ranges beside the loop
    file_system  syncfs
"""
