"""What tests of several folders use: models, made-up failures, crux as a process, counted work."""
