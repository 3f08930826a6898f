"""A folder for PYTHONPATH, no package: Python imports its `sitecustomize` before any script."""
