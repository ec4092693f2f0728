"""Requirements of a manifest's launch on its cluster: referenced objects, capacity, and existing objects."""
