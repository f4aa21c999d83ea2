"""One-operator ONNX models made from the types and attributes of compiled operators, one file for each family."""
