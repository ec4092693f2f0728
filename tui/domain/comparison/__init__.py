"""Two runs of one kind side by side: what they were given, what came out, and only where they differ."""
