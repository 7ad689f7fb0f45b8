"""The templates of a site: read, checked, merged and rendered."""
