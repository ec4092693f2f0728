"""Autopackaging: collect the files, build an archive or an image, upload or push it."""
