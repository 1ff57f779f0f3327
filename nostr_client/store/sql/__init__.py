"""SQL on the store: documented views, read-only, within limits.

`views` says what can be asked, `functions` computes what SQL cannot, `query` opens a store and runs
one statement over the views. Start reading at `query.SqlReader`.
"""
