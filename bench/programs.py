"""How the scripts of this folder run programs."""
import json
import os
import subprocess
import sys


def run(command, environment=None):
    """The JSON object that a program prints."""
    done = subprocess.run([str(part) for part in command], env={**os.environ, **(environment or {})}, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout[done.stdout.index("{"):])
