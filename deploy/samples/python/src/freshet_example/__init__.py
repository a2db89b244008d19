"""Publishes pushes to Freshet over HTTP and follows the timeline of a widget."""

from .freshet import Freshet, Problem

__all__ = ["Freshet", "Problem"]
