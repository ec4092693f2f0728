"""What reaches the terminal: only what differs, no faster than the line takes it."""
