"""Records of a model, a layout and a GPU, and models read from a config.json."""
