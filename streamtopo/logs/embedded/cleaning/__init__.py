"""Retention and compaction of the embedded log."""
