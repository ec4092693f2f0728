"""The training data: samples, their order, and the processes that read them ahead."""
