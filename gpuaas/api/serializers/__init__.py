"""What goes over the wire, noun by noun: inputs and outputs apart."""
