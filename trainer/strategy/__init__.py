"""Ways of parallel training, and the files of their checkpoints."""
