"""Members of a group on Kafka: what they own, read and write."""
