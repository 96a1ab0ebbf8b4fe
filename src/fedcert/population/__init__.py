"""Population certificates: what an average over examples proves, from a few noisy passes of each (docs/proofs.md)."""
