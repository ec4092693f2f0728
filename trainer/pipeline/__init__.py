"""Steps of a training pipeline on Vertex AI: `python -m trainer.pipeline` in the trainer's container.

They need google-cloud-aiplatform where they call the API, and never torch.
"""
