"""`vxtui emulator kubernetes …`."""
