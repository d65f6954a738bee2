"""The verbs: pure decisions over the model, with no I/O, no clock and no randomness."""
