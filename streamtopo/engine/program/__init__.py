"""A subtopology's nodes as one program that runs chunk by chunk."""
