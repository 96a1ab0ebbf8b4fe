"""Data sets, read from files that their makers offer and checked; nothing is downloaded."""
