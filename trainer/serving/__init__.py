"""An HTTP server for a trained model, in the container of a Vertex AI endpoint."""
