"""Templates of a site: read, checked before they are rendered, and merged with newer ones."""
