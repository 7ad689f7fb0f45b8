"""`submit`: which jobs are missing, and their submission."""
