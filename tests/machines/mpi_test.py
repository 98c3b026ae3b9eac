"""The contract of Machines by MPI: three processes of one program, as mpirun starts them.

Called as `python3 mpi_test.py MPIRUN PROGRAM`.
"""

import os
import socket
import subprocess
import sys

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
mpirun, program = sys.argv[1:]
sys.exit(subprocess.run(
    [mpirun, "-np", "3", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "tcp,self", program, str(port)],
    env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
    timeout=120).returncode)
