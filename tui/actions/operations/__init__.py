"""Everything that changes something: one operation each, for keys, palette, `:` commands and verbs alike."""
