"""The experiments of the paper, on networks trained from scratch."""
