"""vxtui: a terminal console for training clusters."""

__version__ = "0.1.0"
