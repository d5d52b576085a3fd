"""Hot modules as machine code: mypyc compiles the same Python, and nothing else depends on it.

    modules   which modules are compiled
    builds    where builds lie, and which of them fits the present sources
    finder    lets `import` take a compiled module instead of the plain one
    compile   makes a build; `python -m local_cluster.compilation`

`HELIOGRAPH_PURE=1` makes every process run plain Python.
"""
