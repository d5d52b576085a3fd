"""What one query needs of the records it reads: columns, and bounds from its filters.

Spark passes neither to a Python data source in a way that is safe here
(`docs/design/spark-filters-as-bounds.md`). So the query is planned before it is read.

Reading order:

    regions      sets of places of records: meet, hull, options of a read (pure)
    predicates   conditions as plain data, and the region that holds their rows (pure)
    conditions   Spark's expressions to predicates
    walking      walks over Spark's plans
    clock        whether bounds depend on the time of planning
    plans        what Spark's plan of a query needs of each load
    loading      options of a read that has all of it, and lines for people
"""
