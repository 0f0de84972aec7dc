"""What stands in the process of a script that is run: standard library only, and nothing of the package around it.

Processes that the script spawns load this folder under another name, as a script may have a module `transformer` beside
it. So imports are relative here.
"""
