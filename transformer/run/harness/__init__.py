"""Code in the process of a script that `run` executes: it uses only the standard library, nothing of the package.

Processes that the script spawns load this folder under another name, because a script may have its own module
`transformer`. So imports are relative here.
"""
