"""Benchmarks against named peers: `make bench`, or `python -m bench.NAME [--quick]`."""
