"""What a person writes: the experiment spec and the site's values."""
