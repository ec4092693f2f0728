"""The jobs of Kubeflow's Training Operator v1: PyTorchJob, TFJob and MPIJob."""
