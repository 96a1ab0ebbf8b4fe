"""Clients as estimators see them: by reports or by sums alone."""
