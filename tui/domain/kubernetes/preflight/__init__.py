"""What a launch of a manifest needs of its cluster: references, room, and what is there already."""
