"""Federated training with noise: settings, algorithms, and two simulators that do the same."""
