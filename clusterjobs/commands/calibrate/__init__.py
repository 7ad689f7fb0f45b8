"""clusterjobs calibrate: measures one layout of a spec in a short job."""
