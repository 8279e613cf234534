"""Trajectories as films: colours, pictures, movies and the player."""
