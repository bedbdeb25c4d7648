"""The typed rows of a store: their cache, the changes of a commit, and their layout as bytes."""
