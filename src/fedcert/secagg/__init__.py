"""Secure aggregation (Bonawitz et al. 2017) against a malicious server; see README.md for its messages."""
