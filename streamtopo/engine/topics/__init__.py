"""The topics of a topology on a log: planned, created, purged and reset."""
