"""Results as text, JSON and figures. A report formats what it is given and computes no result."""
