"""The Spark engine, a child process. Nothing outside of this package imports pyspark."""
