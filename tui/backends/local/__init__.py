"""What is of this machine: the servers of its emulators."""
