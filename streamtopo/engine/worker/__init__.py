"""The worker: the loop, the order of a commit, and when to commit."""
