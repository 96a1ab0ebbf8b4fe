"""A Flower app that trains with noise and certifies."""
