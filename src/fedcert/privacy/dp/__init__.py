"""Differential privacy: mechanism, and accounting with the budget ledger."""
