"""Operations: every change of a resource, for keys, palette, `:` commands and verbs."""
