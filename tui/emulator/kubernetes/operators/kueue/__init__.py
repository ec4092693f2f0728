"""Queues as Kueue has them: quota by flavor, admission by priority, preemption."""
