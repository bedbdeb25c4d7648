"""Operators of tables, and the origins of their rows."""
