"""The jobs of Kubeflow's Training Operator v1: PyTorchJob and TFJob."""
