"""What a launch of a manifest needs of its cluster: referenced objects, capacity, and existing objects."""
