"""Where figures go besides the structured lines."""
