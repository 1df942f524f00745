"""The one forward pass: what a file does to the GPU, statement by statement."""
