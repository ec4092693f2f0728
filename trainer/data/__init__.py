"""The training data: samples, their order, and the processes that prefetch them."""
