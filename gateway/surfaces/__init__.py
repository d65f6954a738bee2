"""The doors: each translates one way of asking into the engine's calls, and decides nothing."""
