"""What numbers mean: limits and colours. Nothing is measured here, so that saved numbers can be judged again."""
