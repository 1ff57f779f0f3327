"""Programs that we did not write, as oracles and peers: how they get here and how to call them."""
