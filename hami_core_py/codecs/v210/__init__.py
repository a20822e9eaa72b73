"""The dialect of HAMi v2.10, which vendors' own device plugins, dashboards and older schedulers speak.

``numbers`` how it spells amounts, ``register`` inventories in text and in JSON, ``offer`` ours among them, ``links`` pair
scores, ``pods`` the devices of a pod, ``shares`` one family's among them, ``partitions`` reserved hardware
partitions, ``reasons`` why a node was refused.
"""
