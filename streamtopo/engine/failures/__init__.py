"""Records that fail: what the application answers, and what is done then."""
