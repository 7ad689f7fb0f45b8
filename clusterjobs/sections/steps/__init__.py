"""The section `steps`: commands before, beside and after the training."""
