"""A stand-in for isaacgym, which must be imported before torch and is used for nothing else."""
