"""What the guard decides: which conditions of which jobs call for an alert. No service, no clock, no disk."""
