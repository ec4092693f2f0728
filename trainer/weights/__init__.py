"""The source of a model's weights, a seed or files: each rank sets only its part of the weights."""
