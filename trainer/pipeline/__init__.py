"""Steps of a training pipeline on Vertex AI: `python -m trainer.pipeline` in the trainer's container.

Steps that call the API need google-cloud-aiplatform; none needs torch.
"""
