"""Benchmarks: every measurement of ours stands beside the bare formula written by hand in NumPy."""
