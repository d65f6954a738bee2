"""What is remembered: one port, one SQL text for every dialect, one writer."""
