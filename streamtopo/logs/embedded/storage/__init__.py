"""The SQLite database of an embedded log: its tables, its batches, and their checksums."""
