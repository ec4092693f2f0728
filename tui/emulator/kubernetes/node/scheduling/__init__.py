"""The scheduler, which assigns pods to nodes."""
