"""A node's place in its cluster, from the environment variables of whatever started it."""
