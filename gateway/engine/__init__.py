"""Where decisions are carried out: persist first, then act."""
