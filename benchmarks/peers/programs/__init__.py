"""The measured programs: the same workloads written for each peer, each run as a process."""
