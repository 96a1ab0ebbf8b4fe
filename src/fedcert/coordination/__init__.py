"""A coordinator's work as functions: ask, and collect what comes back. The commands of the same names call them."""
