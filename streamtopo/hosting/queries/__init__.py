"""Queries of stores: typed keys and values, and the committed rows of this process."""
