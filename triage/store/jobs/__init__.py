"""What long jobs leave in the database: campaigns and what they taught, runs, coverage, watched releases.

In come counts and findings of a job, step by step; out comes what the next one begins from. The rooms of
campaigns, of watching and the pages call it.
"""
