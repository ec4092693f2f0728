"""A Kubernetes API on this machine, with the operators of Kubeflow, whose pods are local processes."""
