"""A trained model behind HTTP, in the container of a Vertex AI endpoint."""
