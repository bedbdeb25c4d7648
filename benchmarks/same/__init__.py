"""The same three applications in five libraries, and what comes out of them on the same backlog."""
