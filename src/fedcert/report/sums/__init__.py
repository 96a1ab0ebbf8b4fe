"""Totals over clients: their values, how they merge, noise in them."""
