#SBATCH --account=ml
