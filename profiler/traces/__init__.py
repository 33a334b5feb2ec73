"""Diagnosis of GPU traces that somebody else recorded. Start at `analyse.analyse`; `model` holds what it returns."""
