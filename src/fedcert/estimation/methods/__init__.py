"""Estimators, each a function of clients, target and settings."""
