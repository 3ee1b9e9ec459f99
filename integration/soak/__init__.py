"""Thousands of workers on one gateway for a long time: are memory and descriptors kept, and every key's order?"""
