"""Models, the endpoints that they are deployed to, and the processes that answer predictions."""
