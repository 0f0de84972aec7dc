"""Code that runs in the process of a script executed by `run`: it uses only the standard library, not the package.

Processes that the script spawns load this folder under another name, because a script may have its own module
`transformer`. So imports in this folder are relative.
"""
