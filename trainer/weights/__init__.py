"""The origin of a model's weights: a seed or files; each rank sets its own part of them."""
