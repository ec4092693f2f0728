"""What the API checks and completes in objects, and the definitions that say so."""
