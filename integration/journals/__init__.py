"""Makes journals of any size whose audit result is known, to test and measure reports."""
