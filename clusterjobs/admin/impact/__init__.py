"""`clusterjobs impact`: what a change does to many specs."""
