"""What every job script must keep, whatever a site changes."""
