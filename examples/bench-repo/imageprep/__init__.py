"""The example's package."""
