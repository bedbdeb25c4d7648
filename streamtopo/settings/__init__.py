"""What users set: the options of a worker, durations and sizes, and which settings may be shown."""
