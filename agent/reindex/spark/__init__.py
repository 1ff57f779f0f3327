"""The Spark engine. Nothing outside of this package imports pyspark, and it runs as a child."""
