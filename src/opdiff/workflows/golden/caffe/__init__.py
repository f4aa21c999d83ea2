"""Caffe models: prototxt and weights, translated to ONNX layer by layer."""
