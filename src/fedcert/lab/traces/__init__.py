"""Traces: the certificates of single examples of a whole experiment, on which any estimator is evaluated in seconds."""
