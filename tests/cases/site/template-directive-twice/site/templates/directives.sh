#SBATCH --account=ml
#SBATCH -N 4
