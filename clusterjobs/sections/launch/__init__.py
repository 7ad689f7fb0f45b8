"""The section `launch`: how the ranks are started."""
