"""What must not change by accident, as snapshots; `make snapshots` writes them again."""
