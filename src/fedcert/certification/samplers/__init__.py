"""Samplers: noisy predictions counted, for numpy models and for torch on CPUs and GPUs."""
