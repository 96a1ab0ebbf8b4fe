"""Validated records: what a field may hold, frozen values, JSON in and out."""
