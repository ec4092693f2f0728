"""Vertex AI Pipelines: compiled KFP pipelines, interpreted here; each executor runs as a custom job."""
