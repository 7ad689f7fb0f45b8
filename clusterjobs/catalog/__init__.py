"""Facts about AWS hardware, each with its source."""
