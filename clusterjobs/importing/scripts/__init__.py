"""Makes a spec from an sbatch script: runs it with stand-ins, and writes what it launches."""
