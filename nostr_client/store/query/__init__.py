"""Answer filters from the tables of a store.

Filters and a connection enter; events, rows, counts and JSON leave. Start with `select`.
`aggregate` answers without events, `search` by words, `snapshot` several questions at once.
`short_answers` and `json_answers` are the fast path of small questions.
"""
