"""Shared by several commands: options, access to the log, tables, and records as text and JSON."""
