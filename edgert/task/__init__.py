"""Tasks: what to run, rewarded how, reset and randomised how; and the Gymnasium environments made of them."""
