"""Research: data sets, partitions, networks, federated training, and the demo."""
