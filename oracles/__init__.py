"""Running and judging a case: the sandbox, the backends, the rules, verdicts, symptoms, signatures."""
