"""Where the rows of a rollup go besides its table."""
