"""The tables that `kubectl get` shows."""
