"""Task-level check of classification models: best classes, accuracy, samples whose result changed."""
