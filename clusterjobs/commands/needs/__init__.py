"""The specs that a spec needs: read into a graph, and drawn."""
