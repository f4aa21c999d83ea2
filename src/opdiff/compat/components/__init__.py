"""Names under which documented scripts look for functions; on the import path only when asked for."""
