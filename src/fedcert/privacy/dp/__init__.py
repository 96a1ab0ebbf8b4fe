"""Differential privacy: mechanism, accounting, budget ledger."""
