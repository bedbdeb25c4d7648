"""Rollups: tables that each run brings up to date from new records."""
