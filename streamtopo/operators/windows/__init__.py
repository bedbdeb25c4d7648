"""Aggregations in windows of time."""
