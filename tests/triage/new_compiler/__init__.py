"""A compiler that crux does not know, as the two files that it takes: a backend and a project."""
