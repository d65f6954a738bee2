"""The nouns: frozen values that every other room shares, standard library only."""
