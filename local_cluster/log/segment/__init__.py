"""Segments: the files that hold the batches of one log, in Kafka's formats.

In reading order:

    segment                     one segment
    segment_list                the segments of a log
    segment_file                the `.log` of a segment, and the bound on open files
    index, transaction_index    the indexes of a segment
    scan                        walks over batches
    batch_lookup                where a read stops or a truncation cuts
    retention                   which segments expire
    swap                        compacted segments
    file_names                  the names of all these files
"""
