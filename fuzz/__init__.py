"""Fuzz targets: what reads foreign bytes, run by atheris with `python -m fuzz TARGET`."""
