"""TensorFlow 1 graphs on TensorFlow 2: layers, networks, policies, optimizers, sessions."""
