"""Kueue's queues: quota by flavor, admission by priority, preemption."""
