"""Sorts photographs of leaves by species."""
