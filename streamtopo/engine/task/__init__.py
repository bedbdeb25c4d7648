"""A task: one subtopology on one partition."""
