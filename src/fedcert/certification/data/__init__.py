"""A client's test examples, from arrays and files."""
