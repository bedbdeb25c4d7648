"""The tasks that a group assigns to a worker, and the restoration of their stores."""
