"""Following a program: public calls are recorded, compared with known ones, and deferred."""
