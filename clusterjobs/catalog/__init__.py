"""Facts about AWS hardware, each with its source; knows nothing of clusters or experiments."""
