"""Contract checks for authors of plug-ins: each kind of plug-in has one that every plug-in passes."""
