"""The optimizers of `--optimizer`, for the shards of one rank."""
