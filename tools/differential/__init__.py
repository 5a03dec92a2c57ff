"""Random programs for two libraries: what is drawn, how it is run, how it is shrunk."""
