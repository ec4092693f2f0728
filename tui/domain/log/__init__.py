"""How a line of output is read: as one JSON object, or as text that may tell its severity."""
