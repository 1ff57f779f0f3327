"""The way to a URL: proxies, refused hosts, client sessions, the budget of a public relay.

A URL enters; an aiohttp session that may connect to it leaves, or an error with the reason. Start
with `routes` (how a URL is reached), then `sessions` and `budget`.
"""
