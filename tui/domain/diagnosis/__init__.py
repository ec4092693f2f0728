"""Why a run failed: reads whole logs into evidence, then decides by rules that are data."""
