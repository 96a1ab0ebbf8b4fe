"""Privacy: keys and signatures, differential privacy, a client's policy on what leaves it, and its state store."""
