"""The client half: a model and local test data in, certificates, and a report of counts out."""
