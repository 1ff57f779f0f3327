"""The way to a URL: proxies, refused hosts, client sessions, the budget of a public relay."""
