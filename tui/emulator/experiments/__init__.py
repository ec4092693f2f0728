"""Vertex ML Metadata and TensorBoard: what the SDK's experiments write and read."""
