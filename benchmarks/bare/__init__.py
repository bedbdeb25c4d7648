"""The bare loops: the same jobs on the same log and stores with the least Python, as the ceiling."""
