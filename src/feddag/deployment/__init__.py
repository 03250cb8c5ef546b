"""A study's two ends, and the engine that carries calls between them."""
