"""Text to tokens: tokenizers, documents, and token files that are mapped into memory."""
