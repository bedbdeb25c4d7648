"""Delta tables: their log, and files of Spark in them."""
