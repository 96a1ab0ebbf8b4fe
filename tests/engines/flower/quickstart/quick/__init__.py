"""A small app in the shape of Flower's quickstart."""
