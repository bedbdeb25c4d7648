"""The DSL: every method only adds nodes to a topology."""
