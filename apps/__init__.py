"""Applications to read, to run and to start from."""
