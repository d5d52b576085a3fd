"""The latest record of each key as an Iceberg table.

Reading order:

    keys        what a key is, and the columns that such a table has besides (pure)
    folding     which record of a key wins (pure)
    bucketing   the Spark job of a batch: fold, shuffle by bucket, rewrite the touched buckets
"""
