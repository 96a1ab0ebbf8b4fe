"""Privacy: signatures, secure sums, differential privacy, and what a site releases."""
