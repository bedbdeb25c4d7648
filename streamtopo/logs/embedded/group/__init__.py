"""Members of a group on the embedded log: their share of the work, what they read, and whether they are alive."""
