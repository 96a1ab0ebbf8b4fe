"""Confidence intervals around linear estimates."""
