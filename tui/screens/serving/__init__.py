"""Screens of models and endpoints."""
