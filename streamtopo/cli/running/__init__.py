"""What a running worker shows on a terminal, and its web server."""
