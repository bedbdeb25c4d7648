"""From the bytes of records to the columns of Spark, decoded by the serdes: also in Spark's Python processes."""
