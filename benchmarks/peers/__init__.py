"""Other stream processors beside ours: the same input, the same broker, the same run."""
