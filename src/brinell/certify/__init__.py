"""Certificates: proofs that no point of a threat set breaks a row, by bounds on what the network can give."""
