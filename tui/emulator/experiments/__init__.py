"""Vertex ML Metadata and TensorBoard, which the SDK uses for experiments."""
