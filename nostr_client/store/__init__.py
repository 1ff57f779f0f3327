"""The event store: rules, schema, queries and the SQLite file under them."""
