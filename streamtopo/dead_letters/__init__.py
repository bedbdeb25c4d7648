"""Dead letters: records that failed, with headers that say why; they are listed, replayed and purged."""
