"""What is measured: the same workloads written for each peer, each a process of its own."""
