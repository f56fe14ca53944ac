"""One kind of meter per file."""
