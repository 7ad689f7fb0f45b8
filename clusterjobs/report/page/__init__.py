"""One page of HTML with what runs achieved: it opens without a server and loads nothing."""

from clusterjobs.report.page.page import page

__all__ = ["page"]
