"""Values and tools that every stage shares."""
