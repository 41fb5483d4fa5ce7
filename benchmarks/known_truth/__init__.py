"""Every index over pairs whose similarity is known: what it sees, and what it is blind to."""
