"""Launch scripts in the manner of public ones, and what bash calls for them."""
