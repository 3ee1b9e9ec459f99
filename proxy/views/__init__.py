"""What the admin ports answer: frozen values of a running gateway. Knows `net`, the pure rooms and `config`."""
