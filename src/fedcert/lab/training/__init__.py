"""Federated training with noise: settings, algorithms, and three simulators that give the same bits."""
