"""Reads logs: windows of steps and events, whatever program wrote them."""
