"""Clusters, the store, reports, campaigns, and the command line that composes everything."""
