"""A node's rank in its cluster, from the environment variables of its launcher."""
