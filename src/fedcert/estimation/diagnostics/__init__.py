"""Checks on an estimate: label shift, screening, what a reader must know."""
