"""Comparison with other stream processors: the same input, broker and run."""
