"""Global views on Spark over the aggregate: reader, views, audit."""
