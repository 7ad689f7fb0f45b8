"""The section `container`: image, mounts and options."""
