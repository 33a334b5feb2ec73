"""Turn a diagnosis into tried, measured and gated fixes."""
