"""The page: one HTML file that tells what is certified, how sure that is, and whether to rely on it."""
