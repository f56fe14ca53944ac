"""wattlaw: what training a Transformer will cost, before it starts."""
