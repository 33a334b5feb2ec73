"""ftprof: why a fine-tuned model is slow, proven, fixed, and shown before and after."""

__version__ = "0.1.0"
