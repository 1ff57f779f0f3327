"""The Spark engine, a child process. Only this package imports pyspark.

A job enters; staged events and the tables of `reference` leave. Start with `job`.
"""
