"""Makes appended records durable, with `flush: fsync`.

Reading order:

    group_commit     fsyncs of many logs in rounds
    flush_gathering  when the next round begins
"""
