"""The training itself: workers, their threads, what they count, and the trainer."""
