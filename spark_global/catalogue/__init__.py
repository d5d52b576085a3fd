"""Questions over all datacenters, as functions from DataFrame to DataFrame and as SQL views.

Each question is one SQL statement over named tables. So the function and the view cannot differ.

Reading order:

    question  one question: its statement, its inputs, its parameters
    records   questions about records: joins, duplicates, conflicts, windows, gaps
    windows   windows of record time, and whether they are complete
    completeness  until when copies are complete, and what holds them back
    offsets   questions about offsets: lag, translation, loss, drift, heartbeats
"""
