"""What is done with a trained policy: play, evaluate, film, export."""
