"""The Python half of Warmcell: a forkserver and the kernels it forks.

Standard library only, CPython 3.8 and newer, one thread. Imports cost milliseconds here: a module
that is not needed for the first cell is imported where it is used.
"""
