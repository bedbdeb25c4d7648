"""A pool of worker processes."""
