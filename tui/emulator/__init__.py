"""A Vertex AI that runs on this machine."""
