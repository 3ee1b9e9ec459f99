"""Which worker owns a hash slot: one selector per mode of the broker, all behind `base.Selector`."""
