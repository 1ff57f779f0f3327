"""Connect to URLs: proxies, refused hosts, client sessions, and the budget of a public relay.

The package takes a URL. It returns an aiohttp session that may connect to the URL, or raises an
error with the reason. Start with `routes` (how the client reaches a URL). Then read `sessions` and
`budget`.
"""
