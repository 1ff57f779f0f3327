"""Store events in an SQLite file: rules, schema, queries and connections.

Input are verified events and filters. Output are save outcomes, events and counts. Start with
`base` (the protocol) and `rules` (which events are stored). Then read `sqlite` (the store), `save`
and `select`.
"""
