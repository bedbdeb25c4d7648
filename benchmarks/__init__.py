"""Measure what streamtopo costs."""
