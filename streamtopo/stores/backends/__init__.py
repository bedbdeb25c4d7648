"""Where the bytes of stores are kept: in RocksDB or in memory."""
