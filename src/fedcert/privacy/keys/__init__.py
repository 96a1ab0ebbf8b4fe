"""Identities, keyrings and signatures."""
