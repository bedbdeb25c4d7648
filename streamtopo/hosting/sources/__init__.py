"""The stores of a topology, with rows in this process, in other processes, or on the disk."""
