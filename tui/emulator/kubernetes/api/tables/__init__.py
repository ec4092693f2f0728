"""The rows that `kubectl get` shows."""
