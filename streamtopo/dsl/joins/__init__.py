"""The nodes and stores of each kind of join."""
