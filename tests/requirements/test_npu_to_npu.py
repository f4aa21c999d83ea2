"""Comparison between NPU and NPU: version iteration, another processor, fusion on and off."""
