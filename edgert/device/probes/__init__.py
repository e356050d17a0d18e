"""How each platform's chips are found and read: one file a platform."""
