"""The page: one HTML file that shows what is certified, how sure that is, and whether to rely on it."""
