"""The DSL. Its methods only add nodes to a topology."""
