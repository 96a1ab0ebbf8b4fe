"""Files: written whole or not at all, locked, and JSON read strictly."""
