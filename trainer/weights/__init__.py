"""Where a model's weights come from: a seed or files; each rank sets its own part of them."""
