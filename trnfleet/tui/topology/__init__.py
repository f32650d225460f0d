"""The Topology view: the links of an instance and of its UltraServer.

`reading` reads the links of the pass shown, `torus` draws them, `lists` has their lists.
"""
