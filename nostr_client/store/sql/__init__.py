"""Run SQL on the store: documented views, read-only, within limits.

`views` defines the views. `functions` computes values that SQL cannot compute. `query` opens a
store and runs one statement over the views. Start reading at `query.SqlReader`.
"""
