"""Starting the processes of a job and looking after them: what torchrun stands on.

`meeting.py` has how launchers on several hosts agree on who is who, `host.py` what a launcher does
on its host, `workers.py` the processes that it starts there and `logs.py` what they print,
`program.py` what runs in them, `multiprocessing/errors` how their errors come to the launcher.
"""
