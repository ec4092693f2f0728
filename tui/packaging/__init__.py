"""Autopackaging, the doing: files are collected, an archive or an image is made, uploaded or pushed."""
