#SBATCH --account=ml
module load cuda
# fine
#SBATCH account=ml
