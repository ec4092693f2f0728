"""Implements `vxtui emulator kubernetes …`."""
