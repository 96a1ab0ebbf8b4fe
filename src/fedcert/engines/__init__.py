"""Thin transports for certification rounds: they move messages and decide nothing."""
