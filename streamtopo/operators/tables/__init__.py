"""Steps that make and change tables."""
