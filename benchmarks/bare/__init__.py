"""The bare loops: the same jobs on the same log and stores with as little Python as possible, as the upper limit."""
