"""Tries the features of official clients through the gateway, and writes the documentation's table of them."""
