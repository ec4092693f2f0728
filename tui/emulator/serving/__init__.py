"""Models, the endpoints that serve them, and the processes that answer predictions."""
