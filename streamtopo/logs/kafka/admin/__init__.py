"""Requests about a cluster: its topics, the offsets of their partitions, and its groups."""
