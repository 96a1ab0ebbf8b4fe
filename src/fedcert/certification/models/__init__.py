"""Models: loaded, identified by their weights, and wrapped as classifiers."""
