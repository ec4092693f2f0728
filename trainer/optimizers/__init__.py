"""The optimizers of `--optimizer`, on the shards of one rank."""
