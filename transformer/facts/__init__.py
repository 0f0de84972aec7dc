"""What is known of Python, and of libraries beside torch and numpy: a row per name, and nothing known without one."""
