"""Checks whether an edited topology can continue with the state that an earlier version has left on the log."""
