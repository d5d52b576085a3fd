"""How Spark's JVM starts.

class_archive  the archive of its classes: where it is, and the option that names it
archiving      `heliograph spark archive-classes`
"""
