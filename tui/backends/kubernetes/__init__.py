"""A Kubernetes cluster as a backend: kr8s for kubeconfig and login, our own calls, lists and watches."""
