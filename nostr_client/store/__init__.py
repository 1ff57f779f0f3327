"""Store events in an SQLite file: rules, schema, queries and connections.

The package takes verified events and filters. It returns save outcomes, events and counts. Start
with `base` (the protocol) and `rules` (which events are stored). Then read `sqlite` (the store),
`save` and `query.select`. `file` is one SQLite file, `index` the tables that are derived from the
events, `sql` the views for SQL of users.
"""
