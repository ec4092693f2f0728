"""Checkpoints: written while training goes on, found again whatever was lost meanwhile."""
