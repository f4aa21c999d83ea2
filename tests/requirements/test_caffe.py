"""Comparison of Caffe models: original, quantized and offline."""
