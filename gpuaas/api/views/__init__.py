"""The handlers, noun by noun: read the input, call one service or selector, show the outcome."""
