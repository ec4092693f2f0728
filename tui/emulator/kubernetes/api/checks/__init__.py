"""What every request passes first: authentication, access, faults."""
