"""Measure a model and explain where its time goes; knows no rules and no reports."""
