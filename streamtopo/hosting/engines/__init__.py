"""The engine of an app: in threads, or in processes of its own."""
