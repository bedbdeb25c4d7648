"""Topics as Spark reads them: from the embedded log or from Apache Kafka, as typed columns."""
