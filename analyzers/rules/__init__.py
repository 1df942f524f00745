"""One module per rule; importing a module registers its rule."""
