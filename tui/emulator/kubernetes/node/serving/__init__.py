"""Answers of kubelet and metrics server: logs, exec, usage."""
