"""The smoothed classifier for use: fresh secret noise for each answer, and a vote."""
