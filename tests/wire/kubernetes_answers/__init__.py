"""The same calls to the API of `local-k8s` and to a real kube-apiserver, and what the latter answered."""
